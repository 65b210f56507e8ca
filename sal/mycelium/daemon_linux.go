package mycelium

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/confine"
	"writ/internal/netns"
	"writ/internal/sleep"
	"writ/sal"
)

// Run keeps the daemon running until ctx ends. It adopts the daemon of an earlier Run, restarts a daemon that exits,
// and waits longer each time if that happens repeatedly. Without the daemon's program, it only waits.
func (n *Node) Run(ctx context.Context) error {
	// Create the key first, or the daemon would generate one.
	if _, err := n.Address(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	if err := CheckPeers(n.Peers); err != nil {
		return err
	}
	if _, err := n.binary(); err != nil {
		n.Log.WarnContext(ctx, "mycelium is missing: networks are local to this node", "err", err)
		<-ctx.Done()
		return nil
	}
	pause := firstPause
	for ctx.Err() == nil {
		began := time.Now()
		err := n.runDaemon(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > longPause {
			pause = firstPause
		}
		if writ.CodeOf(err) == writ.CodeListenRefused {
			n.setFault(fmt.Sprintf("%v; the daemon starts when the port is free", err))
		} else {
			n.setFault(fmt.Sprintf("the daemon exited (%v) and is being restarted; its log is %s", err, n.logPath()))
		}
		n.Log.WarnContext(ctx, "mycelium is not running", "err", err, "again_in", pause)
		_ = sleep.For(ctx, pause)
		pause = min(2*pause, longPause)
	}
	return nil
}

// runDaemon adopts or starts a daemon, and returns when it has exited or ctx has ended.
func (n *Node) runDaemon(ctx context.Context) error {
	args, err := n.args()
	if err != nil {
		return err
	}
	p, err := n.find()
	if err != nil {
		return err
	}
	if p != nil && !slices.Equal(p.args, args) {
		n.Log.InfoContext(ctx, "mycelium settings changed; restarting it", "pid", p.pid)
		p.stop(ctx)
		p.close()
		p = nil
	}
	if p == nil {
		if p, err = n.start(args); err != nil {
			return err
		}
		n.Log.InfoContext(ctx, "mycelium started", "pid", p.pid)
	}
	defer p.close()
	n.setFault("")
	err = n.supervise(ctx, p)
	if ctx.Err() != nil && !n.Outlive {
		p.stop(context.WithoutCancel(ctx))
	}
	return err
}

// supervise waits until the daemon has exited or ctx has ended, and truncates its log meanwhile.
func (n *Node) supervise(ctx context.Context, p *process) error {
	trimming, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ; trimming.Err() == nil; _ = sleep.For(trimming, trimEvery) {
			if err := n.trimLog(); err != nil {
				n.Log.WarnContext(ctx, "truncate the log of mycelium", "err", err)
			}
		}
	}()
	err := p.wait(ctx)
	stop()
	<-done
	return err
}

// Stop stops the daemon of this node, regardless of its parent, and returns when it has exited. It is not an error if
// no daemon runs.
func (n *Node) Stop(ctx context.Context) error {
	p, err := n.find()
	if err != nil || p == nil {
		return err
	}
	defer p.close()
	p.stop(ctx)
	return nil
}

// args returns the daemon's command line. A running daemon with the same command line is up to date.
func (n *Node) args() ([]string, error) {
	binary, err := n.binary()
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(cmp.Or(n.Port, DefaultPort))
	args := []string{
		binary, keyFlag, n.keyPath(), "--tcp-listen-port", port, "--tun-name", cmp.Or(n.Tun, "mycelium"),
		"--api-addr", cmp.Or(n.API, DefaultAPI), "--jsonrpc-addr", cmp.Or(n.RPC, DefaultRPC), "--log-format", "plain",
		"--disable-quic", // a peer connected by QUIC would lose packets of MTU bytes: see CheckPeers
	}
	args = append(args, n.discoveryArgs()...)
	if len(n.Peers) > 0 { // without a value for the flag, the daemon exits with an error
		args = append(append(args, "--peers"), n.Peers...)
	}
	return args, nil
}

// keyFlag precedes the path of the key, which identifies the daemon of a node.
const keyFlag = "--key-file"

// start starts a daemon in a new session, so that it survives signals to its parent's session.
func (n *Node) start(args []string) (*process, error) {
	home := filepath.Join(n.Dir, "home")
	if err := sal.MakeDir(home); err != nil {
		return nil, err
	}
	log, err := n.openLog()
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.Dir, log, log
	cmd.Env = []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if n.Netns != "" {
		leave, err := netns.Enter(n.Netns)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	if err := n.canListen(); err != nil {
		return nil, err
	}
	n.step("start the daemon")
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	handle, err := unix.PidfdOpen(cmd.Process.Pid, unix.PIDFD_NONBLOCK)
	if err != nil { // its number cannot be reused: it is our child
		_ = cmd.Process.Kill()
		return nil, errors.Join(err, cmd.Wait())
	}
	return &process{pid: cmd.Process.Pid, args: args, handle: os.NewFile(uintptr(handle), "pidfd"), child: cmd}, nil
}

// canListen checks that the daemon's ports are free. Without its port or API, the daemon would continue, unreachable
// for peers or for this node, and only log that.
func (n *Node) canListen() error {
	peers := ":" + strconv.Itoa(cmp.Or(n.Port, DefaultPort))
	var open []io.Closer
	for _, at := range []struct{ what, address string }{{"peers", peers}, {"its API", cmp.Or(n.API,
		DefaultAPI)}, {"its other API", cmp.Or(n.RPC, DefaultRPC)}} {
		l, err := net.Listen("tcp", at.address)
		if err != nil {
			return errors.Join(cannotListen(at.what, "TCP", at.address, err), closeAll(open))
		}
		open = append(open, l)
	}
	return closeAll(open)
}

func cannotListen(what, protocol, address string, err error) error {
	return writ.Errorf(writ.CodeListenRefused, "mycelium cannot listen for %s on %s, %s: %w", what, address, protocol,
		errors.Unwrap(err)).
		WithHint("`ss -lntup` shows the process that does")
}

func closeAll(open []io.Closer) (err error) {
	for _, c := range open {
		err = errors.Join(err, c.Close())
	}
	return err
}

// maxLog limits the size of the daemon's log, in bytes, and trimEvery is the interval between checks. One older log is
// kept as .old.
const (
	maxLog    = 4 << 20
	trimEvery = time.Minute
)

func (n *Node) logPath() string { return filepath.Join(n.Dir, "mycelium.log") }

//failpoint:none it writes the log of mycelium
func (n *Node) openLog() (*os.File, error) {
	return os.OpenFile(n.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// trimLog copies the end of a large log and truncates it. The daemon keeps the file open and appends at the new end.
func (n *Node) trimLog() error {
	f, err := os.OpenFile(n.logPath(), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() <= maxLog {
		return err
	}
	n.step("cut the log off")
	end, err := io.ReadAll(io.NewSectionReader(f, info.Size()-maxLog, maxLog))
	if err == nil {
		err = os.WriteFile(n.logPath()+".old", end, 0o600)
	}
	if err != nil {
		return err
	}
	return f.Truncate(0)
}

// process is a daemon. The handle is bound to this process, even if its number is reused.
type process struct {
	pid    int
	args   []string
	handle *os.File
	child  *exec.Cmd // nil if another process started it
}

// find returns the running daemon with this node's key, or nil.
func (n *Node) find() (*process, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || !n.isDaemon(pid) {
			continue
		}
		handle, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
		if err != nil {
			continue // it exited meanwhile
		}
		p := &process{pid: pid, args: commandLine(pid), handle: os.NewFile(uintptr(handle), "pidfd")}
		if n.isDaemon(pid) { // still the same process after the handle was opened
			return p, nil
		}
		p.close()
	}
	return nil, nil
}

// isDaemon reports whether a process is a daemon with this node's key. It excludes processes of other users with the
// same arguments, which any user can start.
func (n *Node) isDaemon(pid int) bool {
	args := commandLine(pid)
	i := slices.Index(args, keyFlag)
	return i > 0 && i+1 < len(args) && args[i+1] == n.keyPath() &&
		filepath.Base(args[0]) == filepath.Base(cmp.Or(n.Binary, "mycelium")) &&
		confine.RunsAs(pid, 0)
}

// commandLine returns the arguments of a process, nil if it has exited.
func commandLine(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(text) == 0 {
		return nil
	}
	var args []string
	for arg := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte{0}), []byte{0}) {
		args = append(args, string(arg))
	}
	return args
}

// wait returns when the process has exited or ctx has ended. An exit is always an error, whatever its status.
func (p *process) wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = p.handle.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := p.handle.SyscallConn()
	if err != nil {
		return err
	}
	err = raw.Read(func(fd uintptr) (done bool) {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		count, err := unix.Poll(ready, 0)
		return err == nil && count > 0
	})
	if ctx.Err() != nil {
		_ = p.handle.SetReadDeadline(time.Time{})
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	if p.child == nil {
		return errors.New("it exited")
	}
	if err := p.child.Wait(); err != nil {
		return err
	}
	return errors.New("it exited without an error")
}

// grace limits the time for a daemon to exit before it is killed.
const grace = 5 * time.Second

// stop stops the process and returns when it has exited.
func (p *process) stop(ctx context.Context) {
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		patience, cancel := context.WithTimeout(ctx, grace)
		p.signal(signal)
		_ = p.wait(patience)
		late := patience.Err() != nil
		cancel()
		if !late {
			return
		}
	}
}

// signal sends a signal. It ignores errors, because the process may have exited.
func (p *process) signal(s unix.Signal) {
	if raw, err := p.handle.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), s, nil, 0) })
	}
}

func (p *process) close() { _ = p.handle.Close() }

// processInfo returns the number, start time and version of the daemon's process, or zero values if it does not run.
func (n *Node) processInfo(ctx context.Context) (pid int64, since time.Time, version string) {
	p, err := n.find()
	if err != nil || p == nil {
		return 0, time.Time{}, ""
	}
	defer p.close()
	since, _ = startOf(p.pid)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.versionPID != p.pid {
		n.versionPID, n.version = p.pid, versionOf(ctx, p)
	}
	return int64(p.pid), since, n.version
}

// versionOf runs the program of a process, which may no longer be on PATH, to get its version. It returns "" if that
// fails.
func versionOf(ctx context.Context, p *process) string {
	if len(p.args) == 0 {
		return ""
	}
	cmd := exec.CommandContext(ctx, fmt.Sprintf("/proc/%d/exe", p.pid))
	cmd.Args = []string{p.args[0], "--version"}
	said, err := cmd.Output()
	if err != nil {
		return ""
	}
	words := strings.Fields(string(said)) // "mycelium 0.7.10"
	if len(words) < 2 || len(words[1]) > 40 {
		return ""
	}
	return strings.TrimPrefix(words[1], "v")
}

// ticks is the unit of times in /proc/PID/stat, in fractions of a second. Linux never changed it for programs.
const ticks = 100

// startOf returns the start time of a process.
func startOf(pid int) (time.Time, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return time.Time{}, err
	}
	// The name before it may contain any character.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const start = 19
	if len(fields) <= start {
		return time.Time{}, fmt.Errorf("process %d has no start", pid)
	}
	began, err := strconv.ParseInt(fields[start], 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return time.Time{}, err
	}
	up := time.Duration(info.Uptime) * time.Second // rounded to seconds
	return time.Now().Add(time.Duration(began)*time.Second/ticks - up).Truncate(time.Second), nil
}
