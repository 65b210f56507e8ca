package mycelium

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"writ/internal/sleep"
)

// maxLog limits the size of the daemon's log, in bytes, and trimEvery is the interval between checks. One older log is
// kept as .old.
const (
	maxLog    = 4 << 20
	trimEvery = time.Minute
)

const logName = "mycelium.log"

// logFile is the log of the daemon. The daemon keeps the file open and appends to it.
type logFile struct {
	path string
	step func(name string)
}

//failpoint:none it writes the log of mycelium
func (l logFile) open() (*os.File, error) {
	return os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// trimRegularly trims the log until ctx ends.
func (l logFile) trimRegularly(ctx context.Context, log *slog.Logger) {
	for ; ctx.Err() == nil; _ = sleep.For(ctx, trimEvery) {
		if err := l.trim(); err != nil {
			log.WarnContext(ctx, "truncate the log of mycelium", "err", err)
		}
	}
}

// trim copies the end of a log larger than maxLog to .old and truncates the log. The daemon then appends at the new
// end.
func (l logFile) trim() error {
	f, err := os.OpenFile(l.path, os.O_RDWR, 0)
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
	l.step("cut the log off")
	end, err := io.ReadAll(io.NewSectionReader(f, info.Size()-maxLog, maxLog))
	if err == nil {
		err = os.WriteFile(l.path+".old", end, 0o600)
	}
	if err != nil {
		return err
	}
	return f.Truncate(0)
}
