package redisd

import (
	"os/exec"
	"runtime"
	"syscall"
)

// runBound runs a child that the kernel ends with this process, even after SIGKILL. The kernel watches the thread that
// started the child, so the thread stays locked until the child ends.
func runBound(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Wait()
}
