package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// call is one request to the process.
type call struct {
	operation string // "vm.boot"
	into      any    // receives the answer; nil if it has no content
}

// done reads the answer to the request, or returns a Refusal. The generated client cannot read answers, because the
// process declares empty bodies as JSON.
func (c call) done(answer *http.Response, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", c.operation, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", c.operation, err)
	}
	if answer.StatusCode/100 != 2 {
		return refusal(c.operation, answer.StatusCode, text)
	}
	if c.into == nil {
		return nil
	}
	if err := json.Unmarshal(text, c.into); err != nil {
		return fmt.Errorf("%s: read the answer: %w", c.operation, err)
	}
	return nil
}

// Refusal is an error answer of the process.
type Refusal struct {
	Operation string   // "vm.boot"
	Status    int      // HTTP status; 500 for nearly every error
	Causes    []string // the process's error messages, outermost first; often empty
}

// Missing reports whether the machine or the named device does not exist.
func (r *Refusal) Missing() bool { return r.Status == http.StatusNotFound }

// Pending reports whether the process still waits for its guest. The same request can succeed later.
func (r *Refusal) Pending() bool { return r.Status == http.StatusTooManyRequests }

// Wrong reports whether the request itself is invalid, so a retry cannot succeed.
func (r *Refusal) Wrong() bool { return r.Status == http.StatusBadRequest }

// Taken reports whether the request creates an object that exists already.
func (r *Refusal) Taken() bool { return r.Status == http.StatusConflict }

// Error returns the causes as one sentence.
func (r *Refusal) Error() string {
	if len(r.Causes) == 0 {
		return fmt.Sprintf("%s: status %d", r.Operation, r.Status)
	}
	return fmt.Sprintf("%s: %s (status %d)", r.Operation, strings.Join(r.Causes, ": "), r.Status)
}

func refusal(operation string, status int, text []byte) *Refusal {
	r := &Refusal{Operation: operation, Status: status}
	if json.Unmarshal(text, &r.Causes) != nil && len(text) > 0 {
		const most = 500 // limit for unexpected text
		r.Causes = []string{strings.ToValidUTF8(string(text[:min(len(text), most)]), "?")}
	}
	return r
}
