package confine

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// forbidden are the system calls for access to networks, other processes, namespaces and the kernel. Signals to threads
// and descriptors of processes are not forbidden, because the Go runtime needs them when it enters a sandbox. Landlock,
// the separate user and the missing capabilities restrict their effect.
var forbidden = []uint32{
	unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT,
	unix.SYS_ACCEPT4, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD,
	unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_KCMP, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSCONFIG,
	unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_SYSLOG, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_INIT_MODULE,
	unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_CLOCK_SETTIME, unix.SYS_SETTIMEOFDAY,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_MKNODAT, unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_MSGGET,
	unix.SYS_SEMGET, unix.SYS_MQ_OPEN,
}

// namespaces are the clone flags that make namespaces, except CLONE_NEWPID: a sandbox itself is started with it, and a
// process in a sandbox lacks the rights to make another PID namespace.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
	unix.CLONE_NEWCGROUP

// architectures are the kernel's identifiers of the supported architectures.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// Offsets in struct seccomp_data.
const (
	atNumber   = 0
	atArch     = 4
	atArgument = 16 // low half of the first argument
)

// filterCalls forbids system calls for this thread and its children. It has no effect on an unknown architecture.
func filterCalls() error {
	arch, known := architectures[runtime.GOARCH]
	if !known {
		return nil
	}
	const (
		refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		absent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		older  = 1 << 30 // the x32 system calls of amd64
	)
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	answer := func(with uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: with}
	}
	jump := func(test uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	filter := []unix.SockFilter{
		load(atArch), jump(unix.BPF_JEQ, arch, 1, 0), answer(unix.SECCOMP_RET_KILL_PROCESS),
		load(atNumber), jump(unix.BPF_JGE, older, 0, 1), answer(refuse),
		// The flags of clone3 are in memory, out of reach of the filter. Libraries fall back to clone.
		jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), answer(absent),
	}
	for _, call := range forbidden {
		filter = append(filter, jump(unix.BPF_JEQ, call, 0, 1), answer(refuse))
	}
	filter = append(filter,
		jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 3), load(atArgument), jump(unix.BPF_JSET, namespaces, 0, 1), answer(refuse),
		answer(unix.SECCOMP_RET_ALLOW))
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	runtime.KeepAlive(filter)
	return err
}
