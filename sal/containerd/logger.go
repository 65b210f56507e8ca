package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"writ"
	"writ/sal"
)

// loggerWord is the first argument of a logger, before the path of the file.
const loggerWord = "container-log"

const (
	// maxLog bounds a file of what a container wrote, in bytes. There are at most two: ID.log, and before it ID.log.1.
	maxLog = 4 << 20
	oldLog = ".1"
	// maxTail bounds what container.logs returns, in bytes; a result as a whole may have 64 KiB.
	maxTail = 48 << 10
	// lastWords is how long a logger goes on reading when it is told to end.
	lastWords = time.Second
)

// IsLogger reports whether a process was started to keep what a container writes: the runtime starts one for each container, which needs
// neither the runner nor the daemon and ends with the container.
func IsLogger(args []string) bool { return len(args) == 3 && args[1] == loggerWord }

// Logger is all of such a process; it returns the exit code. As the runtime has it, the container's outputs are the descriptors 3 and 4,
// and whoever waits for the logger waits for the end of 5.
func Logger(args []string) int {
	// The runtime says SIGTERM when it has closed its ends. Whatever else has one, a daemon that the container left behind, must not hold
	// up its end.
	term, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	outputs := []*os.File{pipe(3, "stdout"), pipe(4, "stderr")}
	ready := os.NewFile(5, "ready")
	log := &rotated{path: args[2]}
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

// rotated is a file that begins anew when it is full, and keeps one that is older. What cannot be written is dropped: a full disk must not
// stop the container.
type rotated struct {
	path string
	most int64 // bytes; 0 is maxLog

	mu   sync.Mutex
	file *os.File
	size int64
}

func (l *rotated) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
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
	if l.size > 0 && l.size+int64(len(b)) > cmp.Or(l.most, maxLog) {
		l.rotate()
	}
	n, _ := l.file.Write(b)
	l.size += int64(n)
	return len(b), nil
}

// rotate goes on with an empty file; if it cannot get one, it empties the one it has.
func (l *rotated) rotate() {
	err := os.Rename(l.path, l.path+oldLog)
	if err == nil {
		before := l.file
		if err = l.open(); err == nil {
			before.Close()
		}
	}
	if err != nil && l.file.Truncate(0) == nil {
		l.size = 0
	}
}

// logs reads the end of what the container wrote.
func (j *job) logs(ctx context.Context, r *record, lines int64) (sal.Outcome, error) {
	outcome, err := j.outcome(ctx, r, writ.ChangeNone)
	if err != nil {
		return sal.Outcome{}, err
	}
	text, err := tail(j.logPath(r.Own.Container), lines)
	if err != nil {
		return sal.Outcome{}, sal.HostError("read what "+r.Resource.String()+" wrote", err)
	}
	outcome.Values["text"] = text
	return outcome, nil
}

// tail returns the last lines of a rotated file, as much as a result may have.
func tail(path string, lines int64) (string, error) {
	var text []byte
	for _, name := range []string{path, path + oldLog} {
		part, err := lastBytes(name, maxTail-int64(len(text)))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		text = append(part, text...)
	}
	from := len(text)
	for n := int64(0); from > 0; from-- {
		if text[from-1] == '\n' && from < len(text) {
			if n++; n == lines {
				break
			}
		}
	}
	return printable(text[from:]), nil
}

// lastBytes returns the end of a file.
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
	part := make([]byte, min(size, most))
	n, err := f.ReadAt(part, size-int64(len(part)))
	if err == io.EOF { // it began anew meanwhile
		err = nil
	}
	return part[:n], err
}
