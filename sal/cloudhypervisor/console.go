package cloudhypervisor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"writ"
	"writ/internal/diskspace"
	"writ/internal/sleep"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/logfile"
)

// maxConsole limits the disk space of a console in bytes. A console above the limit is cut to its last keepConsole
// bytes.
const (
	maxConsole  = 8 << 20
	keepConsole = 2 << 20
)

// console returns a part of the serial output. The output from before the last start is included, because it shows why
// the machine ended.
func (j *job) console(ctx context.Context, r *sal.Record[own], want *catalog.LogPart) (sal.Outcome, error) {
	now, err := powerOf(ctx, &j.Inventory, r)
	if err != nil {
		return sal.Outcome{}, err
	}
	part, err := consoleOf(j.dir, r.UID).Part(want)
	if err != nil {
		return sal.Outcome{}, sal.HostError("read the console of "+r.Resource.String(), err)
	}
	return sal.Outcome{
		Change: writ.ChangeNone, Values: catalog.Values(catalog.MachineConsole{Machine: show(r, now), LogText: part}),
	}, nil
}

// consoleOf returns the console log of the machine in dir. Each start of the machine renames the existing file.
func consoleOf(dir string, uid writ.UID) *logfile.Log {
	return &logfile.Log{Path: filepath.Join(dir, consoleName), Stream: string(uid)}
}

// trimEvery is the interval of the size checks in Run. A serial port writes less than 1 MiB in that time, because each
// byte stops the guest.
const trimEvery = time.Second

// Run trims the output of machines and their processes until ctx ends, then returns nil. Without Run, only Keep trims
// the output, less often.
func (d *Driver) Run(ctx context.Context) error {
	for sleep.For(ctx, trimEvery) == nil {
		d.trimAll()
	}
	return nil
}

// trimAll trims the files of all machines. It ignores errors; Keep reports them.
func (d *Driver) trimAll() {
	names, err := sal.FileNames(d.machines())
	if err != nil {
		return
	}
	for _, name := range names {
		_ = trim(filepath.Join(d.machines(), name), d.step)
	}
}

// trim limits the size of the console and of the process log in the directory of a machine.
func trim(dir string, step func(string)) error {
	var failed error
	for _, name := range []string{consoleName, logName} {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err == nil && diskspace.Occupied(info) > maxConsole {
			err = trimTo(path, info.Size()-keepConsole, maxConsole, step)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// ahead is the number of bytes after the end of a file whose disk space trimTo keeps, because the process may write
// there meanwhile.
const ahead = 1 << 20

// trimTo punches a hole from the start of a file to the offset `end`, if the file occupies more than `most` bytes. The
// process keeps its write position, because the size of the file does not change. Space that the process allocated
// beyond the end without writing to it is released too.
func trimTo(path string, end, most int64, step func(string)) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || diskspace.Occupied(info) <= most {
		return err
	}
	step("trim a log")
	if end > 0 {
		if err := punch(f, 0, end); err != nil {
			return err
		}
	}
	if info, err = f.Stat(); err != nil || diskspace.Occupied(info) <= most {
		return err
	}
	if punch(f, info.Size()+ahead, farthest) == nil { // fails if the file system does not support such large offsets
		if info, err = f.Stat(); err != nil || diskspace.Occupied(info) <= most {
			return err
		}
	}
	// Some file systems, such as ext4, release allocated space only when truncated. Output written at this moment is
	// lost, which affects only a process that allocated space on purpose.
	return f.Truncate(info.Size())
}
