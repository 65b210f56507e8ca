package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"writ"
)

// ProblemOf describes an error to a client. An error without a code becomes INTERNAL without its text. Every problem
// has a hint; the default is the command that explains the code.
func ProblemOf(err error, requestID string) Problem {
	e := AsError(err)
	info := e.Code.Info()
	return Problem{
		Type:      "urn:writ:code:" + string(e.Code),
		Title:     info.Explain(),
		Status:    info.Status,
		Detail:    e.Message,
		Code:      e.Code,
		Hint:      cmp.Or(e.Hint, fmt.Sprintf("see `writ explain %s`", e.Code)),
		Retryable: info.Retryable,
		RequestID: requestID,
		Proof:     e.Proof,
	}
}

// AsError is writ.AsError for the errors of a coordinator. An exceeded deadline becomes STORE_UNAVAILABLE, because only
// the ledger returns it unchanged: requests to datacenters have their own error for a late answer.
func AsError(err error) *writ.Error {
	e := writ.AsError(err)
	if e.Code != writ.CodeInternal || !errors.Is(err, context.DeadlineExceeded) {
		return e
	}
	return &writ.Error{Code: writ.CodeStoreUnavailable, Message: "the coordinator's ledger did not answer in time",
		Hint: "try again in a few seconds; if this repeats, the coordinator or its database has too much work: see /metrics and the log of the coordinator", Err: err}
}

// RetryAfter returns the value of the header Retry-After for an error, in seconds. It is empty if the status of the
// error is neither 429 nor 503.
func RetryAfter(code writ.Code) string {
	switch code.Info().Status {
	case http.StatusTooManyRequests:
		return "1"
	case http.StatusServiceUnavailable:
		return "5"
	}
	return ""
}

// Err returns the error that the problem describes. A code that this program does not know stays in the error, and is
// treated like INTERNAL.
func (p *Problem) Err() *writ.Error {
	e := &writ.Error{Code: p.Code, Message: cmp.Or(p.Detail, p.Title), Hint: p.Hint, Proof: p.Proof}
	if p.Code == writ.CodeInternal {
		e.Hint = fmt.Sprintf("the coordinator's log has the details under the request id %s", p.RequestID)
	}
	return e
}

// maxAnswer limits an answer that is read at once. A page of the largest items is far smaller.
const maxAnswer = 64 << 20

// Answer decodes the result of a Client method: the value on success, otherwise a *writ.Error with the problem's code,
// or UNREACHABLE if no answer arrived or if it is not from a coordinator.
//
//	run, err := api.Answer[api.Run](client.GetRun(ctx, id))
func Answer[T any](response *http.Response, err error) (T, error) {
	var answer T
	if err := ErrorOf(response, err); err != nil {
		return answer, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return answer, &writ.Error{Code: writ.CodeUnreachable, Message: "the answer of the coordinator was cut off", Err: err}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, &writ.Error{
			Code: writ.CodeUnreachable, Message: "the answer is not from a coordinator", Hint: "check the address", Err: err,
		}
	}
	return answer, nil
}

// ErrorOf returns the error of a request like Answer, and nil if it succeeded; the caller then reads and closes the
// body.
func ErrorOf(response *http.Response, err error) error {
	if err != nil {
		if known, ok := errors.AsType[*writ.Error](err); ok {
			return known
		}
		return &writ.Error{Code: writ.CodeUnreachable, Message: "the coordinator does not answer",
			Hint: "check the address and that it runs (`writ doctor`)", Err: err}
	}
	if response.StatusCode < 300 {
		return nil
	}
	defer response.Body.Close()
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	var problem Problem
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil || kind != ProblemType || json.Unmarshal(body, &problem) != nil || problem.Code == "" {
		return writ.Errorf(writ.CodeUnreachable, "the answer, %s, is not from a coordinator", response.Status).
			WithHint("check the address")
	}
	return problem.Err()
}
