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
	"writ/sal/logfile"
)

// The first argument of a logger process, before the path of its file.
const (
	loggerWord      = "container-log"
	splitLoggerWord = "container-logs" // the error output gets its own file, see errorLogPath
)

// errorLogPath returns the path of a separate log of the error output.
func errorLogPath(log string) string { return strings.TrimSuffix(log, ".log") + ".stderr.log" }

const (
	// maxLog limits a log file in bytes. There are at most two: ID.log, and the previous one under another name.
	maxLog = 4 << 20
	// lastWords is how long a logger continues to read after SIGTERM.
	lastWords = time.Second
)

// IsLogger reports whether a process was started as the logger of a container. The runtime starts a logger for each
// container. The logger runs independently of the runner and the daemon, and ends with the container.
func IsLogger(args []string) bool {
	return len(args) == 3 && (args[1] == loggerWord || args[1] == splitLoggerWord)
}

// logTo encodes the argument of a logger: the path of its file, with the host number of the container's root as a
// prefix if that is not 0.
func logTo(path string, root uint32) string {
	if root == 0 {
		return path
	}
	return fmt.Sprintf("%d:%s", root, path)
}

// loggedTo decodes the argument that logTo encoded.
func loggedTo(text string) (path string, root int) {
	number, path, found := strings.Cut(text, ":/")
	if n, err := strconv.Atoi(number); found && err == nil {
		return "/" + path, n
	}
	return text, 0
}

// Logger is the main function of a logger process; it returns the exit code. By the convention of the runtime,
// descriptors 3 and 4 are the outputs of the container, and closing descriptor 5 signals that the logger is ready.
func Logger(args []string) int {
	// The runtime sends SIGTERM after it closed its ends of the pipes. Another process that has the pipes open, such as a
	// background process that the container left, must not delay the end of the logger.
	term, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	outputs := []*os.File{pipe(3, "stdout"), pipe(4, "stderr")}
	ready := os.NewFile(5, "ready")
	path, root := loggedTo(args[2])
	for _, f := range outputs {
		if root == 0 {
			break
		}
		if err := f.Chown(root, root); err != nil { // otherwise the container could not open /dev/stdout
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	paths := []string{path}
	if args[1] == splitLoggerWord {
		paths = append(paths, errorLogPath(path))
	}
	var logs []*rotated // the last log also receives the outputs without their own log
	for _, path := range paths {
		log := &rotated{log: logfile.Log{Path: path}}
		if err := log.open(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		logs = append(logs, log)
	}
	ready.Close()
	context.AfterFunc(term, func() {
		for _, f := range outputs {
			_ = f.SetReadDeadline(time.Now().Add(lastWords))
		}
	})
	var both errgroup.Group
	for i, f := range outputs {
		log := logs[min(i, len(logs)-1)]
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

// pipe returns a file for a descriptor that supports read deadlines.
func pipe(fd uintptr, name string) *os.File {
	_ = syscall.SetNonblock(int(fd), true) // if this fails, reads have no deadline
	return os.NewFile(fd, name)
}

// rotated is a log that starts a new file when the current one is full. Output that cannot be written is dropped, even
// while a full file cannot be renamed, because a full disk must not block the container.
type rotated struct {
	log  logfile.Log
	most int64 // limit in bytes; 0 means maxLog

	mu   sync.Mutex
	file *os.File // nil if it could not be opened
	size int64
}

//failpoint:none it writes the log of a container
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

// full reports whether b exceeds the remaining size of the file.
func (l *rotated) full(b []byte) bool {
	return l.size > 0 && l.size+int64(len(b)) > cmp.Or(l.most, maxLog)
}

// logs returns a part of the container's output.
func (j *job) logs(ctx context.Context, r *record, want *catalog.LogPart) (sal.Outcome, error) {
	shown, err := show(ctx, j.Driver, r)
	if err != nil {
		return sal.Outcome{}, err
	}
	log, err := j.log(ctx, r)
	if err != nil {
		return sal.Outcome{}, err
	}
	part, err := log.Part(want)
	if err != nil {
		return sal.Outcome{}, sal.HostError("read the log of "+r.Resource.String(), err)
	}
	return sal.Outcome{
		Change: writ.ChangeNone, Values: catalog.Values(catalog.ContainerLogs{Container: shown, LogText: part}),
	}, nil
}

// log returns the log of the current container, which hides the secrets in its environment and files.
func (j *job) log(ctx context.Context, r *record) (*logfile.Log, error) {
	log := logOf(j.Dir, r)
	var err error
	log.Secrets, err = secretsOf(ctx, j, r)
	return log, err
}

// secretsOf returns the secrets in the environment and the files of the current container.
func secretsOf(ctx context.Context, j *job, r *record) (logfile.Secrets, error) {
	args, err := argsOf(r)
	if err != nil {
		return nil, err
	}
	stored, err := storedMasks(j.Driver, r)
	if err != nil || stored != nil {
		return stored, err
	}
	secret := map[string]string{} // names of secrets by variable
	for name, text := range args.Env {
		if s, is := text.Secret(); is {
			secret[name] = s.String()
		}
	}
	if len(secret) == 0 {
		return nil, nil
	}
	c, err := j.daemon.LoadContainer(ctx, r.Own.Container)
	if gone(err) { // only the daemon had the values of its secrets, and the log may contain them
		return nil, writ.Errorf(writ.CodeDriverRefused, "containerd has lost %s, and with it the secrets to hide in its log",
			r.Resource).WithHint("run the script that created it again")
	}
	if err != nil {
		return nil, failed("find the container", err)
	}
	spec, err := c.Spec(ctx)
	if err != nil {
		return nil, failed("read the spec of the container", err)
	}
	all := logfile.Secrets{}
	for _, variable := range spec.Process.Env {
		name, value, _ := strings.Cut(variable, "=")
		if shown, is := secret[name]; is && len(value) >= leastSecret {
			all[value] = shown
		}
	}
	return all, nil
}

// leastSecret is the minimum length of a value that is masked in logs. Shorter values occur in any text by chance.
const leastSecret = 4

// Written implements sal.Logging.
func (d *Driver) Written(ctx context.Context, resource writ.ResourceID, after string) (bool, error) {
	r, err := recordsIn(d.Dir).Get(resource)
	if err != nil || r == nil {
		return false, err
	}
	more, err := logOf(d.Dir, r).Written(after)
	if err != nil || !more {
		return false, err
	}
	daemon, err := d.reachCached(ctx)
	if err != nil {
		return false, err
	}
	j := &job{Driver: d, Request: sal.Request{Resource: resource}, daemon: daemon}
	log, err := j.log(d.in(ctx), r) // hides secrets, and withholds text that may be the beginning of one
	if err != nil {
		return false, err
	}
	return log.Written(after)
}
