package evaluator_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"

	"writ/internal/test/testenv"
	"writ/scripts/evaluator"
)

// call returns a system call that needs no memory.
func call(number uintptr, args ...uintptr) func() error {
	return func() error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, err := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); err != 0 {
			return err
		}
		return nil
	}
}

func socket(family, kind int) func() error {
	return func() error {
		_, err := unix.Socket(family, kind, 0)
		return err
	}
}

// code requests writable and executable memory.
func code() error {
	_, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
	return err
}

// makeCode makes writable memory executable.
func makeCode() error {
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	return unix.Mprotect(page, unix.PROT_READ|unix.PROT_EXEC)
}

// fork starts a process that ends at once.
func fork() error {
	pid, _, err := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if err != 0 {
		return err
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return nil
}

// thread are the flags of a thread with its own view of the file system, as a namespace requires.
const thread = unix.CLONE_VM | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD

// intrusions are the actions that children must not be able to do.
var intrusions = map[string]intrusion{
	"open":                          {want: unix.EPERM, try: func() error { _, err := os.Open("/etc/passwd"); return err }},
	"stat":                          {want: unix.EPERM, try: func() error { _, err := os.Stat("/"); return err }},
	"readdir":                       {want: unix.EPERM, try: func() error { _, err := os.ReadDir("/"); return err }},
	"create":                        {want: unix.EPERM, try: func() error { return os.WriteFile("new", nil, 0o600) }},
	"mkdir":                         {want: unix.EPERM, try: func() error { return os.Mkdir("dir", 0o700) }},
	"chdir":                         {want: unix.EPERM, try: func() error { return unix.Chdir("/") }},
	"inherited descriptor":          {want: unix.EBADF, try: func() error { _, err := unix.Read(3, make([]byte, 8)); return err }},
	"tcp":                           {want: unix.EPERM, try: func() error { _, err := net.Listen("tcp", "127.0.0.1:0"); return err }},
	"udp":                           {want: unix.EPERM, try: func() error { _, err := net.ListenPacket("udp", "127.0.0.1:0"); return err }},
	"unix socket":                   {want: unix.EPERM, try: socket(unix.AF_UNIX, unix.SOCK_STREAM)},
	"netlink":                       {want: unix.EPERM, try: socket(unix.AF_NETLINK, unix.SOCK_RAW)},
	"socket pair":                   {want: unix.EPERM, try: func() error { _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err }},
	"memfd":                         {want: unix.EPERM, try: func() error { _, err := unix.MemfdCreate("x", 0); return err }},
	"unshare":                       {want: unix.EPERM, try: func() error { return unix.Unshare(unix.CLONE_FS) }},
	"mount":                         {want: unix.EPERM, privy: true, try: func() error { return unix.Mount("none", "/", "tmpfs", 0, "") }},
	"kill parent":                   {want: unix.EPERM, try: func() error { return unix.Kill(os.Getppid(), 0) }},
	"signal a thread of the parent": {want: unix.EPERM, try: func() error { return unix.Tgkill(os.Getppid(), os.Getppid(), 0) }},
	"handle of the parent":          {want: unix.EPERM, try: func() error { _, err := unix.PidfdOpen(os.Getppid(), 0); return err }},
	"clone":                         {want: unix.EPERM, try: fork},
	"clone into a namespace":        {want: unix.EPERM, privy: true, try: call(unix.SYS_CLONE, thread|unix.CLONE_NEWNS)},
	"clone3":                        {want: unix.ENOSYS, try: call(unix.SYS_CLONE3)},
	"executable memory":             {want: unix.EPERM, try: code},
	"memory made executable":        {want: unix.EPERM, try: makeCode},
	"ioctl":                         {want: unix.EPERM, try: func() error { _, err := unix.IoctlGetInt(0, unix.TIOCINQ); return err }},
	"dumpable":                      {want: unix.EPERM, try: func() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) }},
	"higher limit":                  {want: unix.EPERM, privy: true, try: func() error { return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: 1 << 40, Max: 1 << 40}) }},
	"another filter":                {want: unix.EPERM, try: call(unix.SYS_SECCOMP, 0, 1)},
	"keys":                          {want: unix.EPERM, try: func() error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_PROCESS_KEYRING, true); return err }},

	"execve":   {try: func() error { return unix.Exec("/bin/true", []string{"true"}, nil) }},
	"execveat": {try: call(unix.SYS_EXECVEAT, 3)},
	"ptrace":   {privy: true, try: call(unix.SYS_PTRACE, unix.PTRACE_TRACEME)},
	"read the parent's memory": {privy: true, try: func() error {
		var b byte
		local := []unix.Iovec{{Base: &b, Len: 1}}
		_, err := unix.ProcessVMReadv(os.Getppid(), local, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&b)), Len: 1}}, 0)
		return err
	}},
	"bpf":      {privy: true, try: call(unix.SYS_BPF)},
	"io_uring": {privy: true, try: call(unix.SYS_IO_URING_SETUP, 1)},
}

// pauper is a child on a kernel without Landlock and seccomp. It prints its missing layers.
func pauper() int {
	err := seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: seccomp.Policy{
		DefaultAction: seccomp.ActionAllow,
		Syscalls: []seccomp.SyscallGroup{{
			Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: []string{"landlock_create_ruleset", "seccomp"},
		}},
	}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	layers, err := evaluator.Confine()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for _, name := range layers.Missing() {
		fmt.Println(name)
	}
	return 0
}

func TestChildStartsWithoutOptionalLayers(t *testing.T) {
	needLayer(t, evaluator.LayerSeccomp)
	out, err := exec.Command(childBinary(t), "pauper").CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(lines) != 2 || !strings.HasPrefix(lines[0], evaluator.LayerLandlock+": ") || !strings.HasPrefix(lines[1], evaluator.LayerSeccomp+": ") {
		t.Errorf("without Landlock and seccomp (%v):\n%s", err, out)
	}
}

// TestLivingChildIsConfined inspects an idle child from outside. Its parent has descriptors and variables to inherit.
func TestLivingChildIsConfined(t *testing.T) {
	needLayer(t, evaluator.LayerSeccomp)
	t.Setenv("SECRET", "of the parent")
	inherited, err := unix.Open(os.Args[0], unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(inherited) }()
	pool := newPool(t, 1)
	finish(t, pool, bundle(facts))
	dir := fmt.Sprintf("/proc/%d", pool.Idle()[0].Pid)

	tasks, err := filepath.Glob(dir + "/task/*/status")
	if err != nil || len(tasks) < 2 {
		t.Fatalf("threads: %v %v", tasks, err)
	}
	for _, task := range tasks {
		status, err := os.ReadFile(task)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"NoNewPrivs:\t1", "Seccomp:\t2"} { // 2: a filter
			if !strings.Contains(string(status), "\n"+want+"\n") {
				t.Errorf("%s lacks %q:\n%s", task, want, status)
			}
		}
	}

	environment, err := os.ReadFile(dir + "/environ")
	if !testenv.Privileged() {
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("an unprivileged process read the child's environment: %v", err)
		}
		return
	}
	if err != nil || len(environment) > 0 {
		t.Errorf("the child's environment is %q (%v), want none", environment, err)
	}

	descriptors, err := os.ReadDir(dir + "/fd")
	if err != nil || len(descriptors) < 3 {
		t.Fatalf("descriptors: %v %v", descriptors, err)
	}
	for _, d := range descriptors {
		target, err := os.Readlink(dir + "/fd/" + d.Name())
		if err != nil || !strings.HasPrefix(target, "pipe:") && !strings.HasPrefix(target, "anon_inode:[event") {
			t.Errorf("the child has %s open (%v)", target, err)
		}
	}
}
