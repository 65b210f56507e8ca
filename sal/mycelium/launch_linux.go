package mycelium

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"writ"
	"writ/internal/netns"
	"writ/internal/pidfd"
	"writ/sal"
)

// launch holds the directory, namespace and log of a new daemon.
type launch struct {
	dir   string       // working directory of the daemon, with its home directory
	netns string       // file of the daemon's network namespace; "" means the namespace of this process
	ready func() error // checks the network namespace before the start
	log   logFile
	step  func(name string)
}

// start starts a daemon in a new session, so that it survives signals to its parent's session.
func (l launch) start(args []string) (*process, error) {
	home := filepath.Join(l.dir, "home")
	if err := sal.MakeDir(home); err != nil {
		return nil, err
	}
	log, err := l.log.open()
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = l.dir, log, log
	cmd.Env = []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if l.netns != "" {
		leave, err := netns.Enter(l.netns)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	if err := l.ready(); err != nil {
		return nil, err
	}
	l.step("start the daemon")
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	handle, err := pidfd.Open(cmd.Process.Pid)
	if err != nil || handle == nil { // the PID cannot be reused before Wait
		_ = cmd.Process.Kill()
		return nil, errors.Join(err, cmd.Wait())
	}
	return &process{pid: cmd.Process.Pid, args: args, handle: handle, child: cmd}, nil
}

// checkPorts checks that the daemon's ports are free. If a port is in use, the daemon only logs that and continues, and
// peers or this node cannot reach it.
func (o *Options) checkPorts() error {
	var open []io.Closer
	for _, at := range []struct{ use, address string }{
		{"peers", ":" + o.port()}, {"its API", o.api()}, {"its other API", o.rpc()},
	} {
		l, err := net.Listen("tcp", at.address)
		if err != nil {
			err = writ.Errorf(writ.CodeListenRefused, "mycelium cannot listen on %s (TCP, for %s): %w", at.address, at.use,
				errors.Unwrap(err)).
				WithHint("`ss -lntup` shows the process that uses the port")
			return errors.Join(err, closeAll(open))
		}
		open = append(open, l)
	}
	return closeAll(open)
}

func closeAll(open []io.Closer) (err error) {
	for _, c := range open {
		err = errors.Join(err, c.Close())
	}
	return err
}
