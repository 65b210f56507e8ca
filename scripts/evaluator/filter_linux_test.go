package evaluator

import (
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
)

// TestPolicyKnowsEveryArchitecture compares the names of the policy with the tables of the architectures that writ
// supports. An unknown name would prevent children from starting there.
func TestPolicyKnowsEveryArchitecture(t *testing.T) {
	for _, architecture := range []string{"amd64", "arm64"} {
		calls, err := arch.GetInfo(architecture)
		if err != nil {
			t.Fatal(err)
		}
		p := policy(calls, 1)
		for _, group := range p.Syscalls {
			names := group.Names
			for _, n := range group.NamesWithCondtions {
				names = append(names, n.Name)
			}
			for _, name := range names {
				if _, ok := calls.SyscallNames[name]; !ok {
					t.Errorf("%s has no system call %s", architecture, name)
				}
			}
		}
	}
}
