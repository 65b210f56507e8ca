package main

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
	"writ/cmd/writ/internal/daemon"
	"writ/supervisor/journal"
)

// maxSleepers bounds the runs that nothing would wake which are listed one by one.
const maxSleepers = 20

// betweenLooks is how long the doctor waits before it looks once more for runs that nothing would wake: what was decided a moment ago may not have
// reached them.
const betweenLooks = 3 * time.Second

// examineJournal looks in a supervisor's journal for runs that nothing would wake, twice if it finds some, with a pause between. place is as --journal
// has it.
func examineJournal(ctx context.Context, place string, pause func()) []finding {
	read := readCopy
	if strings.HasPrefix(place, "@") || strings.Contains(place, "://") {
		read = readServer
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
		fix := cmp.Or(writ.AsError(err).Hint, "name the file journal.db in the data directory of a supervisor on this host, or the address of its database")
		return []finding{{Check: "journal", State: ill, Detail: err.Error(), Fix: fix}}
	}
	if len(sleepers) == 0 {
		return []finding{{Check: "journal", State: healthy, Detail: fmt.Sprintf("%d open runs, and each has something that wakes it", open)}}
	}
	found := []finding{{
		Check: "journal", State: ill, Detail: fmt.Sprintf("%d open runs; of what is in them nothing would wake %d", open, len(sleepers)),
		Fix: "start the supervisor again: what it finds so it wakes; and report this, it is a bug of writ",
	}}
	for _, s := range sleepers[:min(len(sleepers), maxSleepers)] {
		found = append(found, finding{Check: "run " + string(s.Run), State: ill, Detail: s.String()})
	}
	return found
}

// readCopy returns how many open runs a journal has, and what nothing would wake of them. It reads a copy: a journal is upgraded when it is opened, and
// that is the supervisor's business.
func readCopy(ctx context.Context, file string) (open int, sleepers []journal.Sleeper, err error) {
	if _, err := os.Stat(file); err != nil {
		return 0, nil, fmt.Errorf("read the journal: %w", err)
	}
	dir, err := os.MkdirTemp("", "writ-doctor-*")
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	copied := filepath.Join(dir, "journal.db")
	if err := journal.Copy(ctx, file, copied); err != nil {
		return 0, nil, fmt.Errorf("read the journal: %w", err)
	}
	j, err := journal.Open(ctx, copied)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	return sleepersOf(ctx, j)
}

// readServer is readCopy for a journal in PostgreSQL, which it reads where it is.
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

// sleepersOf returns how many open runs a journal has, and what nothing would wake of them.
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
