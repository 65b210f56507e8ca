package daemon

import (
	"os/exec"
	"runtime"
	"syscall"
)

// runBound runs a child that the kernel ends with this process, even if this one is killed. The kernel watches the thread that made
// the child, so the thread is kept until the child is gone.
func runBound(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Wait()
}
