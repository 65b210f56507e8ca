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

// allowedCalls are what the runtime of Go, and the C library where it is linked in, need to compute, to start threads, to answer through
// the pipes and to die.
var allowedCalls = []string{
	"read", "write", "close",
	"munmap", "madvise",
	"futex", "sched_yield", "sched_getaffinity", "nanosleep", "clock_nanosleep", "clock_gettime", "restart_syscall",
	"epoll_create1", "epoll_ctl", "epoll_pwait", "eventfd2",
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack",
	"getpid", "gettid", "set_robust_list", "rseq", "getrandom",
	"exit", "exit_group",
}

// deadlyCalls end the process at once: no library calls them by the way, so whoever does has taken over. The last two do not exist on
// every architecture.
var deadlyCalls = []string{
	"execve", "execveat", "ptrace", "process_vm_readv", "process_vm_writev", "bpf", "io_uring_setup", "userfaultfd",
	"init_module", "finit_module", "kexec_load", "fork", "vfork",
}

// namespaces are the flags of clone that leave one of the process's namespaces.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET

// policy says what becomes of each system call: every one that is not named gives EPERM.
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
		// Its flags are behind a pointer, where no filter can see them. The C library then asks clone.
		{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: []string{"clone3"}},
		{Action: seccomp.ActionKillProcess, Names: slices.DeleteFunc(slices.Clone(deadlyCalls), func(name string) bool {
			_, exists := calls.SyscallNames[name]
			return !exists
		})},
	}}
}

// filter leaves the process the system calls of the policy, in all of its threads.
func filter() (Layer, error) {
	layer := Layer{Name: LayerSeccomp}
	calls, err := arch.GetInfo("")
	if err != nil {
		layer.Missing = err.Error()
		return layer, nil
	}
	if !seccomp.Supported() {
		layer.Missing = "the kernel does not have it"
		return layer, nil
	}
	err = seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: policy(calls, os.Getpid())})
	if err != nil {
		return layer, fmt.Errorf("put up seccomp: %w", err)
	}
	// The library does not notice if a thread could not be brought under the filter, in which case none is.
	if _, err := unix.Getsid(0); !errors.Is(err, unix.EPERM) {
		return layer, fmt.Errorf("seccomp is up, but getsid gave %v, not %v", err, unix.EPERM)
	}
	return layer, nil
}
