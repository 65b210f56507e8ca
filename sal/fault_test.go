package sal

import (
	"fmt"
	"go/ast"
	"io/fs"
	"maps"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/test/gosource"
)

func TestPermanentFaultsAreNotRetried(t *testing.T) {
	t.Parallel()
	for errno, mender := range Faults {
		err := HostError("do it", &fs.PathError{Op: "open", Path: "/x", Err: errno})
		if got := writ.AsError(err).Retryable(); got != (mender == Time) {
			t.Errorf("%v, which the %s mends, is %s", errno, mender, writ.CodeOf(err))
		}
	}
	for words, want := range map[string]writ.Code{
		"cannot get the nested state: Invalid argument (os error 22)": writ.CodeDriverRefused,
		"Operation not supported (os error 95)":                       writ.CodeDriverRefused,
		"Resource temporarily unavailable (os error 11)":              writ.CodeDriverFailed,
		"(os error 9999)":        writ.CodeDriverFailed,
		"the guest is not ready": writ.CodeDriverFailed,
	} {
		if got := SaidCode(words); got != want {
			t.Errorf("%q is %s, want %s", words, got, want)
		}
	}
	if got := writ.CodeOf(HostError("do it", fmt.Errorf("unknown: %w", syscall.ENOTBLK))); got != writ.CodeDriverFailed {
		t.Errorf("an error without a row is %s", got)
	}
}

// retried gives a reason for each function of a driver that itself returns DRIVER_FAILED. Faults covers the errors of
// the operating system.
var retried = map[string]string{
	"btrfs.quotasOff":                  "the next call enables quotas",
	"cloudhypervisor.job.requireState": "a guest may need longer on a busy node",
	"cloudhypervisor.job.awaitLife":    "a crash of the process, which is restarted",
	"cloudhypervisor.vmm.ask":          "a crash of the process, which is restarted",
	"cloudhypervisor.vmm.end":          "a process that waits for a disk ends later",
	"cloudhypervisor.job.launch":       "memory or devices of the node may be free later",

	"imagestore.Failed":     "the daemon restarts",
	"sal.FaultCode":         "the table Faults",
	"sal.SaidCode":          "the table Faults",
	"sal.faultCode":         "the table Faults",
	"herodb.job.endedError": "memory or the port may be free later",
	"herodb.job.answers":    "clients leave",
	"herodb.cannotListen":   "the other process may end",
	"herodb.job.end":        "a process that waits for a disk ends later",
}

func TestRetriedErrorsHaveAReason(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	files, err := gosource.Load(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file.Folder == "saltest" || file.Folder == "catalog" {
			continue
		}
		for _, f := range file.Functions() {
			ast.Inspect(f.Decl, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "CodeDriverFailed" {
					found[f.String()] = true
				}
				return true
			})
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(retried)), slices.Sorted(maps.Keys(found))); diff != "" {
		t.Errorf("explain in `retried` why waiting helps, or return DRIVER_REFUSED (- has no such function, + has no reason):\n%s", diff)
	}
	for name, why := range retried {
		if why == "" {
			t.Errorf("%s has no reason", name)
		}
	}
}
