package cloudhypervisor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"writ"
	"writ/internal/cgroup"
	"writ/internal/confine"
	"writ/sal"
	"writ/sal/cloudhypervisor/api"
	"writ/sal/logfile"
)

// process is the recorded process of a machine.
type process struct {
	Launch  string `json:"launch"` // random ID of this start; part of the name of the events file
	Boot    string `json:"boot"`   // boot ID of the host, read before the start
	PID     int    `json:"pid"`    // 0 until it is known
	Started uint64 `json:"started"`
	Version string `json:"version,omitempty"` // version that the process reports
	// Stays reports whether the process continues after its guest has turned itself off. A process that an earlier driver
	// version started ends in this case, with the same events as at any other end.
	Stays bool `json:"stays,omitempty"`
}

// errEnded is the error of a process that ended during an operation.
var errEnded = errors.New("the process has ended")

// Names of files in a machine's directory.
const (
	socketName  = "api.sock"
	seedName    = "seed.img"
	consoleName = "console.log"
	logName     = "vmm.log"
)

// previousSuffix is the suffix of the log from before the last start.
const previousSuffix = ".1"

// vmm is the process of a machine and its API. The process is held open, so its PID is not reused.
type vmm struct {
	*api.VMM
	*held
	dir    string // directory of the machine; its base name is also the name of the cgroup
	making bool   // the machine is being made; if that fails, everything is deleted, including the log
	groups *cgroup.Groups
}

// seeLog returns a hint, or the end of a hint, that names the log file.
func (v *vmm) seeLog() string { return seeLog(v.dir, v.making) }

func seeLog(dir string, making bool) string {
	if making {
		return "the machine was removed; the message has the last output of cloud-hypervisor"
	}
	return "its log on the node is " + filepath.Join(dir, logName)
}

// newVMM returns the process of the machine in dir.
func newVMM(groups *cgroup.Groups, dir string, h *held) *vmm {
	return &vmm{VMM: api.Open(filepath.Join(dir, socketName)), held: h, dir: dir, groups: groups}
}

// release closes the handle. The process continues.
func (v *vmm) release() {
	if v == nil {
		return
	}
	v.Close()
	v.held.release()
}

// ask makes a request and cancels it if the process ends. The message of its error is "cannot ", then `doing`, a verb
// phrase such as "resume the machine", then the cause.
func (v *vmm) ask(ctx context.Context, doing string, request func(ctx context.Context) error) error {
	alive, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if v.wait(alive) == nil {
			cancel(errEnded)
		}
	}()
	err := request(alive)
	cancel(nil)
	<-watched
	if _, said := errors.AsType[*api.Refusal](err); err != nil && !said && ctx.Err() == nil {
		soon, cancel := context.WithTimeout(ctx, afterwards)
		_ = v.wait(soon) // a broken connection means that the process is about to end
		cancel()
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case v.ended() && outOfMemory(v.groups, filepath.Base(v.dir)):
		return writ.Errorf(writ.CodeQuotaExceeded,
			"cannot %s: the kernel killed cloud-hypervisor at its memory limit%s", doing, v.logTail()).
			WithHint("give the machine more memory with a larger memory_mib; %s", v.seeLog())
	case v.ended():
		return writ.Errorf(writ.CodeDriverFailed, "cannot %s: cloud-hypervisor ended%s", doing, v.logTail()).
			WithHint("%s", v.seeLog())
	default:
		return writ.Errorf(codeOf(err), "cannot %s: %w", doing, err).
			WithHint("the text after the colon is from cloud-hypervisor; %s", v.seeLog())
	}
}

// codeOf returns the error code for an answer of the process. An error in the request itself is permanent.
// cloud-hypervisor 54 and later distinguish such errors from temporary failures.
func codeOf(err error) writ.Code {
	refusal, said := errors.AsType[*api.Refusal](err)
	switch {
	case said && refusal.Wrong():
		return writ.CodeArgumentsInvalid
	case said && refusal.Taken():
		return writ.CodeResourceConflict
	case said:
		return sal.SaidCode(refusal.Error())
	}
	return sal.FaultCode(err)
}

// afterwards limits how long a process may live after it closes its socket, because it needs time to shut its machine
// down.
const afterwards = time.Second

// logTail returns the end of the process's log on one line, as the end of a sentence.
func (v *vmm) logTail() string { return logTail(v.dir) }

func logTail(dir string) string {
	var lines []string
	for line := range strings.Lines(tail(filepath.Join(dir, logName), 5)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if lines == nil {
		return " without output"
	}
	const most = 2000
	text := strings.Join(lines, "; ")
	return ", its last output was: " + strings.ToValidUTF8(text[max(0, len(text)-most):], "")
}

// complaint returns the last error in the recent log of the process, or "".
func complaint(dir string) string {
	said := ""
	for line := range strings.Lines(tail(filepath.Join(dir, logName), 50)) {
		if strings.Contains(line, "ERROR") || strings.Contains(line, "panicked") {
			said = strings.TrimSpace(line)
		}
	}
	const most = 400
	return strings.ToValidUTF8(said[:min(len(said), most)], "")
}

// state returns the power state and the configuration of the machine. A process without a running or paused machine
// counts as stopped.
func (v *vmm) state(ctx context.Context) (power, api.Info, error) {
	var info api.Info
	err := v.ask(ctx, "query the machine", func(ctx context.Context) (err error) {
		info, err = v.Info(ctx)
		return err
	})
	if refusal, ok := errors.AsType[*api.Refusal](err); ok && refusal.Missing() {
		return stopped, info, nil // nothing was created yet
	}
	if err != nil && v.ended() {
		return stopped, info, nil
	}
	switch info.State {
	case api.StateRunning:
		return running, info, err
	case api.StatePaused:
		return paused, info, err
	default:
		return stopped, info, err
	}
}

// launch starts the process of a machine. The record of this start is written first, either here or earlier by create.
// The PID is recorded only when the caller writes the finished machine; until then the process is found by its
// arguments. This saves one disk sync per start.
func (j *job) launch(ctx context.Context, r *sal.Record[own]) (*vmm, error) {
	path, err := program(j.Program).path()
	if err != nil {
		return nil, err
	}
	if r.Own.Process == nil {
		if err := j.prepared(ctx, r); err != nil {
			return nil, err
		}
		if err := j.records().Put(r); err != nil {
			return nil, err
		}
	}
	h, err := j.spawn(path, r)
	if errors.Is(err, errEnded) {
		return nil, writ.Errorf(writ.CodeDriverFailed, "cannot start cloud-hypervisor: it ended%s", logTail(j.dir)).
			WithHint("%s", seeLog(j.dir, r.Own.Phase == making))
	}
	if err != nil {
		return nil, sal.HostError("start cloud-hypervisor", err)
	}
	r.Own.Process.PID, r.Own.Process.Started = h.pid, h.started
	v := newVMM(j.groups(), j.dir, h)
	v.making = r.Own.Phase == making
	return v, nil
}

// newProcess returns the record of a process that is about to be started.
func newProcess() (*process, error) {
	boot, err := thisBoot()
	if err != nil {
		return nil, sal.HostError("read the host's boot id", err)
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	return &process{Launch: hex.EncodeToString(id[:]), Boot: boot, Stays: true}, nil
}

func (j *job) spawn(program string, r *sal.Record[own]) (*held, error) {
	j.step("make room for the process")
	if err := j.makeRoom(); err != nil {
		return nil, err
	}
	cell, err := j.makeCgroup(r)
	if err != nil {
		return nil, err
	}
	if err := j.chownDir(r); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(j.dir, logName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	j.step("listen for the process")
	socket, err := listenAt(filepath.Join(j.dir, socketName))
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	path := filepath.Join(j.dir, eventsName(r.Own.Process.Launch))
	events, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer events.Close()
	j.step("start the process")
	args := []string{"--api-socket", "fd=3", eventsFlag, "fd=4", "--no-shutdown"}
	h, err := spawn(cell, program, program+" "+eventsTo+path, args, log, socket, events)
	if barred, ok := errors.AsType[*confine.Barred](err); ok {
		return nil, writ.Errorf(writ.CodeDriverMissing, "cannot start the process of %s: %w", r.Resource, barred).
			WithHint("put the program where every user may execute it: /usr/local/bin")
	}
	return h, err
}

// makeRoom moves the logs of the last process aside and deletes its events. The directory is synced later, when it
// holds files that must last.
//
//failpoint:none the caller names the write
func (j *job) makeRoom() error {
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return err
	}
	if err := (&logfile.Log{Path: filepath.Join(j.dir, consoleName)}).PutAside(); err != nil {
		return err
	}
	path := filepath.Join(j.dir, logName)
	if err := os.Rename(path, path+previousSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	names, err := sal.FileNames(j.dir)
	for _, name := range names {
		if old, _ := filepath.Match(eventsName("*"), name); old {
			err = errors.Join(err, os.Remove(filepath.Join(j.dir, name)))
		}
	}
	return err
}

// foreignError returns the error about a foreign process that listens at the socket of a machine.
func foreignError(pid int) error {
	return writ.Errorf(writ.CodeResourceConflict,
		"process %d, which does not belong to the machine, listens on its socket (%s)", pid,
		strings.Join(argumentsOf(pid), " ")).
		WithHint("end that process; writ ends only processes that it started")
}

// Time limits of the ways to end a process. After each limit, end tries the next way. toDie is the limit after SIGKILL.
const (
	toFlush     = 5 * time.Second
	toEnd       = 3 * time.Second
	toTerminate = 3 * time.Second
	toDie       = 20 * time.Second
)

// end cuts the machine off and ends its process: by an API request, by SIGTERM, by SIGKILL. It returns an error if the
// kernel does not let the process die.
//
//failpoint:steps cut the machine off; end the process; terminate the process; kill the process
func (v *vmm) end(ctx context.Context, step func(string)) error {
	for _, way := range []struct {
		name     string
		patience time.Duration
		do       func(ctx context.Context) error
		ends     bool
	}{
		{"cut the machine off", toFlush, v.CutOff, false}, // flushes its disks
		{"end the process", toEnd, v.EndProcess, true},
		{"terminate the process", toTerminate, func(context.Context) error { return v.terminate() }, true},
		{"kill the process", toDie, func(context.Context) error { return v.kill() }, true},
	} {
		step(way.name)
		limited, cancel := context.WithTimeout(ctx, way.patience)
		err := v.ask(limited, way.name, way.do)
		if err == nil && way.ends {
			_ = v.wait(limited)
		}
		cancel()
		if v.ended() {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return writ.Errorf(writ.CodeDriverFailed, "process %d does not end", v.pid).
		WithHint("the kernel keeps it, most likely because a disk does not respond; check the node")
}

// tail returns the last lines of a file, or "" if it cannot be read.
func tail(path string, lines int) string {
	const most = 4 << 10 // bytes; it becomes part of an error
	text, err := lastBytes(path, most)
	if err != nil {
		return ""
	}
	clean := strings.ToValidUTF8(strings.ReplaceAll(string(text), "\x00", ""), "?")
	all := strings.SplitAfter(clean, "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return strings.Join(all[max(0, len(all)-lines):], "")
}

func lastBytes(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	at := max(0, size-most)
	text := make([]byte, size-at)
	if _, err := f.ReadAt(text, at); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the end of %s: %w", path, err)
	}
	return text, nil
}
