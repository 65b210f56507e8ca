package writ_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
)

func TestErrorKeepsItsCause(t *testing.T) {
	err := fmt.Errorf("advance run: %w", writ.Errorf(writ.CodeDriverFailed, "read the disk: %w", io.ErrUnexpectedEOF))
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("the cause is lost")
	}
	if got := writ.CodeOf(err); got != writ.CodeDriverFailed {
		t.Errorf("code = %s", got)
	}
	if got := writ.AsError(err).Message; got != "read the disk: unexpected EOF" {
		t.Errorf("message = %q", got)
	}
}

func TestOtherErrorsAreInternalAndHidden(t *testing.T) {
	cause := errors.New("open /root/key: permission denied")
	err := writ.AsError(cause)
	if err.Code != writ.CodeInternal || err.Message != "internal error" || err.Hint != "" {
		t.Errorf("AsError = %+v", err)
	}
	if !errors.Is(err, cause) {
		t.Error("the cause is lost")
	}
	if writ.AsError(nil) != nil || writ.CodeOf(nil) != "" {
		t.Error("nil is an error")
	}
}

func TestErrorCrossesTheWireWithoutItsCause(t *testing.T) {
	sent := writ.Errorf(writ.CodeNoCapacity, "no room for %d machines: %w", 3, io.EOF).WithHint("add a node with `%s`", "writ token create")
	wire, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	var got writ.Error
	if err := json.Unmarshal(wire, &got); err != nil {
		t.Fatal(err)
	}
	want := writ.Error{Code: writ.CodeNoCapacity, Message: "no room for 3 machines: EOF", Hint: "add a node with `writ token create`"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("over the wire (-want +got):\n%s", diff)
	}
	if !got.Retryable() {
		t.Error("NO_CAPACITY is not retryable")
	}
}
