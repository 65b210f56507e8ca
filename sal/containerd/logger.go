package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// loggerWord is the first argument of a logger, before the path of the file.
const loggerWord = "container-log"

const (
	// maxLog bounds a file of what a container wrote, in bytes. There are at most two: ID.log, and what was put aside before it.
	maxLog = 4 << 20
	// lastWords is how long a logger goes on reading when it is told to end.
	lastWords = time.Second
)

// IsLogger reports whether a process was started to keep what a container writes: the runtime starts one for each container, which needs
// neither the runner nor the daemon and ends with the container.
func IsLogger(args []string) bool { return len(args) == 3 && args[1] == loggerWord }

// logTo is what a logger is told: the path of its file, and before it the number of the container's root on this host, if that is another one.
func logTo(path string, root uint32) string {
	if root == 0 {
		return path
	}
	return fmt.Sprintf("%d:%s", root, path)
}

// loggedTo reads what logTo wrote.
func loggedTo(text string) (path string, root int) {
	number, path, found := strings.Cut(text, ":/")
	if n, err := strconv.Atoi(number); found && err == nil {
		return "/" + path, n
	}
	return text, 0
}

// Logger is all of such a process; it returns the exit code. As the runtime has it, the container's outputs are the descriptors 3 and 4,
// and whoever waits for the logger waits for the end of 5.
func Logger(args []string) int {
	// The runtime says SIGTERM when it has closed its ends. Whatever else has one, a daemon that the container left behind, must not hold
	// up its end.
	term, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	outputs := []*os.File{pipe(3, "stdout"), pipe(4, "stderr")}
	ready := os.NewFile(5, "ready")
	path, root := loggedTo(args[2])
	for _, f := range outputs {
		if root == 0 {
			break
		}
		if err := f.Chown(root, root); err != nil { // or it could not open /dev/stdout
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	log := &rotated{log: sal.Log{Path: path}}
	if err := log.open(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ready.Close()
	context.AfterFunc(term, func() {
		for _, f := range outputs {
			_ = f.SetReadDeadline(time.Now().Add(lastWords))
		}
	})
	var both errgroup.Group
	for _, f := range outputs {
		both.Go(func() error {
			_, err := io.Copy(log, struct{ io.Reader }{f})
			return err
		})
	}
	if err := both.Wait(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// pipe is a descriptor whose reads can be given a deadline.
func pipe(fd uintptr, name string) *os.File {
	_ = syscall.SetNonblock(int(fd), true) // one that cannot is read without deadlines
	return os.NewFile(fd, name)
}

// rotated is a log whose file is put aside when it is full. What cannot be written is dropped, also while a full file cannot be put aside: a
// full disk must not stop the container.
type rotated struct {
	log  sal.Log
	most int64 // bytes; 0 is maxLog

	mu   sync.Mutex
	file *os.File // nil if it could not be opened
	size int64
}

func (l *rotated) open() error {
	f, err := os.OpenFile(l.log.Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write never fails.
func (l *rotated) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil && l.full(b) {
		_ = l.log.PutAside()
		l.file.Close()
		l.file = nil
	}
	if l.file == nil && l.open() != nil || l.full(b) {
		return len(b), nil
	}
	n, _ := l.file.Write(b)
	l.size += int64(n)
	return len(b), nil
}

// full reports whether something has no room behind what is in the file.
func (l *rotated) full(b []byte) bool {
	return l.size > 0 && l.size+int64(len(b)) > cmp.Or(l.most, maxLog)
}

// logs reads what the container wrote.
func (j *job) logs(ctx context.Context, r *record, want *catalog.LogPart) (sal.Outcome, error) {
	shown, err := j.show(ctx, r)
	if err != nil {
		return sal.Outcome{}, err
	}
	log, err := j.log(ctx, r)
	if err != nil {
		return sal.Outcome{}, err
	}
	part, err := log.Part(want)
	if err != nil {
		return sal.Outcome{}, sal.HostError("read what "+r.Resource.String()+" wrote", err)
	}
	return sal.Outcome{Change: writ.ChangeNone, Values: catalog.Values(catalog.ContainerLogs{Container: shown, LogText: part})}, nil
}

// log is what the container that counts has written. What its environment has from secrets is not told.
func (j *job) log(ctx context.Context, r *record) (*sal.Log, error) {
	log := j.logOf(r)
	args, err := argsOf(r)
	if err != nil {
		return nil, err
	}
	secret := map[string]string{} // the names of secrets by variable
	for name, text := range args.Env {
		if s, is := text.Secret(); is {
			secret[name] = s.String()
		}
	}
	if len(secret) == 0 {
		return log, nil
	}
	c, err := j.daemon.LoadContainer(ctx, r.Own.Container)
	if gone(err) { // and what it had of secrets with it
		return log, nil
	}
	if err != nil {
		return nil, failed("find the container", err)
	}
	spec, err := c.Spec(ctx)
	if err != nil {
		return nil, failed("read what the container was made of", err)
	}
	log.Secrets = map[string]string{}
	for _, variable := range spec.Process.Env {
		name, value, _ := strings.Cut(variable, "=")
		if shown, is := secret[name]; is && len(value) >= leastSecret {
			log.Secrets[value] = shown
		}
	}
	return log, nil
}

// leastSecret is how long a value is that is looked for in logs: anything shorter is in every text by chance.
const leastSecret = 4

// Written is part of sal.Logging.
func (d *Driver) Written(ctx context.Context, resource writ.ResourceID, after string) (bool, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return false, err
	}
	more, err := d.logOf(r).Written(after)
	if err != nil || !more {
		return false, err
	}
	daemon, err := d.glance(ctx)
	if err != nil {
		return false, err
	}
	j := &job{Driver: d, Request: sal.Request{Resource: resource}, daemon: daemon}
	log, err := j.log(d.in(ctx), r) // which may hold back what could become a secret
	if err != nil {
		return false, err
	}
	return log.Written(after)
}
