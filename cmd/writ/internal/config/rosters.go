package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/identity"
)

// Rosters keeps the signed rosters of one cluster in a folder, a file for each version. They are public; what counts is that none can
// be exchanged for an older one unseen.
type Rosters struct {
	Dir     string
	Cluster writ.ClusterID
	Anchor  identity.Anchor // through which the chain must lead; its zero value demands nothing
}

// rosterEnding ends the names of the files: "7.roster".
const rosterEnding = ".roster"

// RostersIn returns the rosters of a cluster below a folder that may hold those of others too.
func RostersIn(dir string, cluster writ.ClusterID) Rosters {
	return Rosters{Dir: filepath.Join(dir, "rosters", string(cluster)), Cluster: cluster}
}

// FindRosters returns the rosters below a folder that holds those of one cluster only. It is NOT_FOUND if there are none.
func FindRosters(dir string) (Rosters, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "rosters"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Rosters{}, Unwritable(dir, fmt.Errorf("look for rosters: %w", err))
	}
	switch {
	case len(entries) == 0:
		return Rosters{}, writ.Errorf(writ.CodeNotFound, "there are no rosters in %s", dir)
	case len(entries) > 1:
		return Rosters{}, writ.Errorf(writ.CodeConflict, "%s holds the rosters of %d clusters", dir, len(entries))
	}
	return RostersIn(dir, writ.ClusterID(entries[0].Name())), nil
}

// Signed returns the signed rosters that are kept, oldest first; none is no error.
func (r Rosters) Signed() ([][]byte, error) {
	entries, err := os.ReadDir(r.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the rosters: %w", err)
	}
	var versions []int
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), rosterEnding)
		if v, err := strconv.Atoi(name); ok && err == nil {
			versions = append(versions, v)
		}
	}
	slices.Sort(versions)
	var signed [][]byte
	for _, v := range versions {
		text, err := os.ReadFile(r.Path(v))
		if err != nil {
			return nil, fmt.Errorf("read the rosters: %w", err)
		}
		signed = append(signed, text)
	}
	return signed, nil
}

// Path returns the file of a version.
func (r Rosters) Path(version int) string {
	return filepath.Join(r.Dir, strconv.Itoa(version)+rosterEnding)
}

// Latest returns the newest roster that is kept, nil if there is none. Whether it has expired is not asked: it was verified when it
// was added.
func (r Rosters) Latest() (*identity.Roster, error) {
	signed, err := r.Signed()
	if err != nil || len(signed) == 0 {
		return nil, err
	}
	roster, err := identity.VerifyRosters(r.Cluster, signed, time.Time{})
	if err != nil {
		return nil, fmt.Errorf("verify the rosters in %s: %w", r.Dir, err)
	}
	return roster, nil
}

// Add verifies rosters as successors of the newest one, oldest first, keeps them, and returns the newest. Those that are kept already
// are passed over; of the first one the cluster's id is the proof.
func (r Rosters) Add(signed ...[]byte) (*identity.Roster, error) {
	have, err := r.Signed()
	if err != nil {
		return nil, err
	}
	latest, err := r.Latest()
	if err != nil {
		return nil, err
	}
	for _, text := range signed {
		if slices.ContainsFunc(have, func(h []byte) bool { return string(h) == string(text) }) {
			continue
		}
		var next *identity.Roster
		if latest == nil {
			next, err = identity.VerifyRosters(r.Cluster, [][]byte{text}, time.Time{})
		} else {
			next, err = identity.VerifyRoster(latest, text, time.Time{})
		}
		if err == nil {
			err = r.Anchor.Holds(next)
		}
		if err != nil {
			return nil, err
		}
		// The folder is not made before something belongs into it: a cluster's id with a typing error must leave nothing behind.
		if err := os.MkdirAll(r.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("keep a roster: %w", err)
		}
		if err := WriteFile(r.Path(next.Version), text); err != nil {
			return nil, fmt.Errorf("keep a roster: %w", err)
		}
		latest = next
	}
	return latest, nil
}
