package cloudhypervisor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// What a console may occupy on disk, and what is left when it has more.
const (
	maxConsole  = 8 << 20
	keepConsole = 2 << 20
)

// console reads the end of what the machine wrote, also before it was started the last time: there is the reason why it ended.
func (j *job) console(ctx context.Context, r *sal.Record[own], lines int) (sal.Outcome, error) {
	now, err := j.seen(ctx, r)
	if err != nil {
		return sal.Outcome{}, err
	}
	path := filepath.Join(j.dir, consoleName)
	answer := catalog.MachineConsole{Machine: show(r, now), Text: tail([]string{path + formerly, path}, lines)}
	return sal.Outcome{Change: writ.ChangeNone, Values: catalog.Values(answer)}, nil
}

// trim gives the beginning of a log back to the disk that has grown too big. Its process goes on writing where it is: the file keeps its size
// and has a hole.
func (j *job) trim(name string) error {
	f, err := os.OpenFile(filepath.Join(j.dir, name), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || occupied(info) <= maxConsole {
		return err
	}
	j.step("trim " + name)
	return punch(f, info.Size()-keepConsole)
}
