package cloudhypervisor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// What a console may occupy on disk, and what is left when it has more.
const (
	maxConsole  = 8 << 20
	keepConsole = 2 << 20
)

// console reads what the machine wrote, also before it was started the last time: there is the reason why it ended.
func (j *job) console(ctx context.Context, r *sal.Record[own], want *catalog.LogPart) (sal.Outcome, error) {
	now, err := j.seen(ctx, r)
	if err != nil {
		return sal.Outcome{}, err
	}
	part, err := j.consoleOf(r).Part(want)
	if err != nil {
		return sal.Outcome{}, sal.HostError("read the console of "+r.Resource.String(), err)
	}
	return sal.Outcome{Change: writ.ChangeNone, Values: catalog.Values(catalog.MachineConsole{Machine: show(r, now), LogText: part})}, nil
}

// Written is part of sal.Logging.
func (d *Driver) Written(_ context.Context, resource writ.ResourceID, after string) (bool, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return false, err
	}
	return d.consoleOf(r).Written(after)
}

// consoleOf is what a machine writes to its console. Each start puts aside what was written before.
func (d *Driver) consoleOf(r *sal.Record[own]) *sal.Log {
	return &sal.Log{Path: filepath.Join(d.dirOf(r.Resource), consoleName), Stream: string(r.UID)}
}

// trimEvery is how often a console is held against its bound while a runner is there. A serial port takes less than a MiB in that time: each
// byte stops the guest.
const trimEvery = time.Second

// Run cuts off what machines and their processes write once it is too much, until ctx ends; then it returns nil. Without it Keep does, more
// rarely.
func (d *Driver) Run(ctx context.Context) error {
	for every := time.NewTicker(trimEvery); ; {
		select {
		case <-ctx.Done():
			every.Stop()
			return nil
		case <-every.C:
			d.trimAll()
		}
	}
}

// trimAll trims the files of all machines. What stands in the way is told by Keep.
func (d *Driver) trimAll() {
	names, err := sal.FileNames(d.machines())
	if err != nil {
		return
	}
	for _, name := range names {
		_ = d.trim(filepath.Join(d.machines(), name))
	}
}

// trim bounds what a machine and its process have written, in its directory.
func (d *Driver) trim(dir string) error {
	var failed error
	for _, name := range []string{consoleName, logName} {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err == nil && occupied(info) > maxConsole {
			err = d.trimTo(path, info.Size()-keepConsole, maxConsole)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// ahead is how far behind its end a file is left alone while it is trimmed: its process writes there meanwhile.
const ahead = 1 << 20

// trimTo gives the beginning of a file back to the disk, up to a place in it, if it occupies more than it may. Its process goes on writing
// where it is: the file keeps its size and has a hole. What it has reserved behind its end, which it need not write, goes as well.
func (d *Driver) trimTo(path string, end, most int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || occupied(info) <= most {
		return err
	}
	d.step("trim a log")
	if end > 0 {
		if err := punch(f, 0, end); err != nil {
			return err
		}
	}
	if info, err = f.Stat(); err != nil || occupied(info) <= most {
		return err
	}
	if punch(f, info.Size()+ahead, farthest) == nil { // else the disk has no offsets so large
		if info, err = f.Stat(); err != nil || occupied(info) <= most {
			return err
		}
	}
	// There are disks, ext4 is one, that give back what is reserved in no other way. What is written this moment is cut off as well; only a
	// process that reserved on purpose comes here.
	return f.Truncate(info.Size())
}
