package evaluator

import (
	"errors"
	"fmt"
	"os"
	"slices"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// allowedCalls are the system calls that the Go runtime, and the C library if it is linked, need to compute, start
// threads, use the pipes and exit.
var allowedCalls = []string{
	"read", "write", "close",
	"munmap", "madvise",
	"futex", "sched_yield", "sched_getaffinity", "nanosleep", "clock_nanosleep", "clock_gettime", "restart_syscall",
	"epoll_create1", "epoll_ctl", "epoll_pwait", "eventfd2",
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack",
	"getpid", "gettid", "set_robust_list", "rseq", "getrandom",
	"exit", "exit_group",
}

// deadlyCalls kill the process. No library uses them incidentally, so a call proves that a script has taken over the
// process. The last two do not exist on every architecture.
var deadlyCalls = []string{
	"execve", "execveat", "ptrace", "process_vm_readv", "process_vm_writev", "bpf", "io_uring_setup", "userfaultfd",
	"init_module", "finit_module", "kexec_load", "fork", "vfork",
}

// namespaces are the flags of clone that create a namespace.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET

// policy returns the rules for system calls. Calls without a rule fail with EPERM.
func policy(calls *arch.Info, pid int) seccomp.Policy {
	allow := func(name string, conditions ...seccomp.Condition) seccomp.NameWithConditions {
		return seccomp.NameWithConditions{Name: name, Conditions: conditions}
	}
	noCode := seccomp.Condition{Argument: 2, Operation: seccomp.BitsNotSet, Value: unix.PROT_EXEC}
	return seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{
		{Action: seccomp.ActionAllow, Names: allowedCalls, NamesWithCondtions: []seccomp.NameWithConditions{
			allow("mmap", noCode),
			allow("mprotect", noCode),
			allow("clone",
				seccomp.Condition{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_THREAD},
				seccomp.Condition{Argument: 0, Operation: seccomp.BitsNotSet, Value: namespaces}),
			allow("tgkill", seccomp.Condition{Argument: 0, Operation: seccomp.Equal, Value: uint64(pid)}),
			allow("prctl", // the runtime names its memory
				seccomp.Condition{Argument: 0, Operation: seccomp.Equal, Value: unix.PR_SET_VMA},
				seccomp.Condition{Argument: 1, Operation: seccomp.Equal, Value: unix.PR_SET_VMA_ANON_NAME}),
		}},
		// The flags of clone3 are behind a pointer that no filter can read. The C library falls back to clone.
		{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: []string{"clone3"}},
		{Action: seccomp.ActionKillProcess, Names: slices.DeleteFunc(slices.Clone(deadlyCalls), func(name string) bool {
			_, exists := calls.SyscallNames[name]
			return !exists
		})},
	}}
}

// filter restricts all threads of the process to the system calls of the policy.
func filter() (Layer, error) {
	layer := Layer{Name: LayerSeccomp}
	calls, err := arch.GetInfo("")
	if err != nil {
		layer.Missing = err.Error()
		return layer, nil
	}
	if !seccomp.Supported() {
		layer.Missing = "the kernel lacks it"
		return layer, nil
	}
	err = seccomp.LoadFilter(seccomp.Filter{
		NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: policy(calls, os.Getpid()),
	})
	if err != nil {
		return layer, fmt.Errorf("load the seccomp filter: %w", err)
	}
	// The library does not report a thread that could not get the filter; then no thread has it.
	if _, err := unix.Getsid(0); !errors.Is(err, unix.EPERM) {
		return layer, fmt.Errorf("seccomp is active, but getsid gave %v, not %v", err, unix.EPERM)
	}
	return layer, nil
}
