package sal

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
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
	if got := writ.CodeOf(HostError("do it", fmt.Errorf("unknown: %w", syscall.EXFULL))); got != writ.CodeDriverFailed {
		t.Errorf("an error without a row is %s", got)
	}
}

// retried gives a reason for each function of a driver that returns DRIVER_FAILED by itself. Faults covers the errors
// of the operating system.
var retried = map[string]string{
	"btrfs/quota_state.go quotasOff":       "the next call switches quotas on",
	"cloudhypervisor/create.go expect":     "a guest may need longer on a busy node",
	"cloudhypervisor/create.go expectLife": "a crash of the process; it is started again",
	"cloudhypervisor/vmm.go ask":           "a crash of the process; it is started again",
	"cloudhypervisor/vmm.go end":           "a process that waits for a disk ends later",
	"cloudhypervisor/vmm.go launch":        "memory or devices of the node may be free later",

	"containerd/daemon.go failed":  "the daemon is started again",
	"fault.go FaultCode":           "the table Faults",
	"fault.go SaidCode":            "the table Faults",
	"fault.go faultCode":           "the table Faults",
	"herodb/log.go died":           "memory or the port may be free later",
	"herodb/serve.go answers":      "clients leave",
	"herodb/serve.go cannotListen": "the other process may end",
	"herodb/serve.go end":          "a process that waits for a disk ends later",
}

func TestRetriedErrorsHaveAReason(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "saltest/") || strings.HasPrefix(path, "catalog/") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "CodeDriverFailed" {
					found[filepath.ToSlash(path)+" "+f.Name.Name] = true
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(retried)), slices.Sorted(maps.Keys(found))); diff != "" {
		t.Errorf("say in `retried` why waiting helps, or return DRIVER_REFUSED (- has no such function, + has no reason):\n%s", diff)
	}
	for name, why := range retried {
		if why == "" {
			t.Errorf("%s has no reason", name)
		}
	}
}
