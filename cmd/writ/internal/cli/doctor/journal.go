package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/supervisord"
	"writ/supervisor/journal"
)

// maxSleepers limits how many stuck runs are listed individually.
const maxSleepers = 20

// betweenLooks is the pause before the doctor scans for stuck runs again. Decisions that were made shortly before the
// first scan may not have reached their runs yet.
const betweenLooks = 3 * time.Second

// examineJournal scans a supervisor's journal for stuck runs: open runs that no event would wake. If it finds some, it
// calls pause and scans again. place has the syntax of --journal.
func examineJournal(ctx context.Context, place string, pause func()) []finding {
	read := readCopy
	if strings.HasPrefix(place, "@") || strings.Contains(place, "://") {
		read = readServer
	}
	if found := examineMark(ctx, place); len(found) > 0 {
		return found
	}
	open, sleepers, err := read(ctx, place)
	if err == nil && len(sleepers) > 0 {
		pause()
		before := sleepers
		if open, sleepers, err = read(ctx, place); err == nil {
			sleepers = slices.DeleteFunc(sleepers, func(s journal.Sleeper) bool { return !slices.Contains(before, s) })
		}
	}
	if err != nil {
		fix := cmp.Or(writ.AsError(err).Hint,
			"name the file journal.db in the data directory of a supervisor on this host, or the address of its database")
		return []finding{{Check: "journal", State: ill, Detail: err.Error(), Fix: fix}}
	}
	if len(sleepers) == 0 {
		return []finding{
			{Check: "journal", State: healthy, Detail: fmt.Sprintf("%d open runs; an event will wake each of them", open)},
		}
	}
	found := []finding{{
		Check: "journal", State: ill,
		Detail: fmt.Sprintf("%d open runs, with %d waits that no event would end", open, len(sleepers)),
		Fix:    "restart the supervisor, which ends these waits, and report this bug of writ",
	}}
	for _, s := range sleepers[:min(len(sleepers), maxSleepers)] {
		found = append(found, finding{Check: "run " + string(s.Run), State: ill, Detail: s.String()})
	}
	return found
}

// examineMark returns a finding for a journal in a file that is older than the mark beside it, which the supervisor
// updates every 10 s: the file is a backup, or it was copied without its newest records in journal.db-wal. The supervisor
// would start with it.
func examineMark(ctx context.Context, file string) []finding {
	dir := filepath.Dir(file)
	seen, err := supervisord.Seen(dir) // before the journal, which may grow meanwhile
	if err != nil || seen == (journal.Head{}) {
		return nil
	}
	var head journal.Head
	err = withCopy(ctx, file, func(j *journal.Journal) (err error) {
		head, err = j.Head(ctx)
		return err
	})
	if err != nil || !head.Behind(seen) {
		return nil
	}
	return []finding{{
		Check: "journal", State: ill,
		Detail: fmt.Sprintf("%s is a backup, or a copy without journal.db-wal: it ends at event %d, and the supervisor has "+
			"recorded event %d", file, head.Seq, seen.Seq),
		Fix: "stop the supervisor, and copy the whole directory again. If the newest records are lost: " +
			"writ restore --mark --data " + cli.ShellWord(dir),
	}}
}

// readCopy returns the number of open runs in a journal, and the open runs that no event would wake. It reads a copy,
// because opening a journal upgrades it, and only the supervisor may do that.
func readCopy(ctx context.Context, file string) (open int, sleepers []journal.Sleeper, err error) {
	err = withCopy(ctx, file, func(j *journal.Journal) (err error) {
		open, sleepers, err = sleepersOf(ctx, j)
		return err
	})
	return open, sleepers, err
}

// withCopy calls do with a copy of a journal, and deletes the copy.
func withCopy(ctx context.Context, file string, do func(j *journal.Journal) error) (err error) {
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	dir, err := os.MkdirTemp("", "writ-doctor-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	copied := filepath.Join(dir, "journal.db")
	if err := journal.Copy(ctx, file, copied); err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	j, err := journal.Open(ctx, copied)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	return do(j)
}

// readServer does the same as readCopy for a journal in PostgreSQL, without a copy.
func readServer(ctx context.Context, address string) (open int, sleepers []journal.Sleeper, err error) {
	if address, err = daemon.ServerAddress("journal", address); err != nil {
		return 0, nil, err
	}
	j, err := journal.OpenToRead(ctx, address)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	return sleepersOf(ctx, j)
}

// sleepersOf returns the number of open runs in a journal, and the open runs that no event would wake.
func sleepersOf(ctx context.Context, j *journal.Journal) (open int, sleepers []journal.Sleeper, err error) {
	err = j.Read(ctx, func(tx *journal.Tx) error {
		runs, err := tx.OpenRuns()
		if err != nil {
			return err
		}
		for _, n := range runs {
			open += n
		}
		sleepers, err = tx.AllSleepers()
		return err
	})
	return open, sleepers, err
}
