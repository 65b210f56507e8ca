package config

import (
	"bytes"
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
	"writ/identity/chain"
	"writ/internal/failpoint"
)

// Rosters stores the rosters of one cluster in a folder. Each file holds one link: the signed text of a version,
// preceded by the digests of the versions between it and the previous file. Files that are not needed to prove the
// newest roster are removed. Rosters are public, but a rollback to an older roster must be detected.
type Rosters struct {
	Dir     string
	Cluster writ.ClusterID
	Anchor  identity.Anchor // version that the chain must contain; the zero value accepts any chain
}

// rosterEnding is the suffix of roster files, such as "7.roster".
const rosterEnding = ".roster"

// RostersIn returns the rosters of a cluster below dir. The folder may also hold rosters of other clusters.
func RostersIn(dir string, cluster writ.ClusterID) Rosters {
	return Rosters{Dir: filepath.Join(dir, "rosters", string(cluster)), Cluster: cluster}
}

// FindRosters returns the rosters below dir, which must hold rosters of exactly one cluster. The error is NOT_FOUND if
// dir holds none and CONFLICT if it holds several.
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

// readAttempts limits how often a folder is read again while other processes replace its files.
const readAttempts = 5

// Links returns the links that prove the newest roster, version 1 first. A missing folder is not an error.
func (r Rosters) Links() (links [][]byte, err error) {
	for range readAttempts {
		if links, err = r.readLinks(); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the rosters: %w", err)
	}
	return links, nil
}

// readLinks reads the newest file, then the file of the version that it follows, and so on.
func (r Rosters) readLinks() (links [][]byte, err error) {
	versions, err := r.versions()
	if err != nil {
		return nil, err
	}
	for i := len(versions) - 1; i >= 0; {
		link, err := os.ReadFile(r.Path(versions[i]))
		if err != nil {
			return nil, err
		}
		links = append(links, link)
		_, follows, err := chain.Versions(link)
		if err != nil {
			return nil, r.damaged(r.Path(versions[i]), err)
		}
		i--
		for follows != 0 && i >= 0 && versions[i] > follows {
			i--
		}
	}
	slices.Reverse(links)
	return links, nil
}

// versions lists the versions of the stored files in ascending order.
func (r Rosters) versions() (versions []int, err error) {
	entries, err := os.ReadDir(r.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), rosterEnding)
		if v, err := strconv.Atoi(name); ok && err == nil {
			versions = append(versions, v)
		}
	}
	slices.Sort(versions)
	return versions, nil
}

// Path returns the file name of a version.
func (r Rosters) Path(version int) string {
	return filepath.Join(r.Dir, strconv.Itoa(version)+rosterEnding)
}

// Latest returns the newest stored roster, or nil. It may have expired.
func (r Rosters) Latest() (*identity.Roster, error) {
	chain, err := r.chain()
	return chain.Newest, err
}

// chain reads and verifies the stored links.
func (r Rosters) chain() (identity.RosterChain, error) {
	links, err := r.Links()
	if err != nil || len(links) == 0 {
		return identity.RosterChain{}, err
	}
	newest, err := identity.VerifyRosters(r.Cluster, links, time.Time{})
	if err != nil {
		return identity.RosterChain{}, r.damaged(r.Dir, err)
	}
	return identity.RosterChain{Newest: newest, Links: links}, nil
}

// damaged returns DATA_INCOMPLETE for stored rosters that cannot be verified.
func (r Rosters) damaged(path string, err error) *writ.Error {
	return writ.Errorf(writ.CodeDataIncomplete, "%s is damaged: %w", path, err).
		WithHint("move %s away: a coordinator or `writ restore` provides the rosters again", r.Dir)
}

// Add verifies links that follow the newest roster, oldest first, and stores the links needed for the proof. It skips
// known rosters and returns the newest roster. The cluster id authenticates the first version.
func (r Rosters) Add(links ...[]byte) (*identity.Roster, error) {
	stored, err := r.chain()
	if err != nil {
		return nil, err
	}
	chain := stored
	var invalid error
	for _, link := range links {
		next, err := chain.Extend(r.Cluster, [][]byte{link}, time.Time{})
		if err == nil {
			err = r.Anchor.Holds(next.Newest)
		}
		if err != nil {
			invalid = err // earlier links stay valid
			break
		}
		chain = next
	}
	if chain.Newest != stored.Newest {
		if err := r.store(stored.Links, chain.Links); err != nil {
			return nil, fmt.Errorf("store a roster: %w", err)
		}
	}
	if invalid != nil {
		return nil, invalid
	}
	return chain.Newest, nil
}

// store writes the missing links, oldest first, and then removes the files that are no longer part of the chain.
func (r Rosters) store(have, links [][]byte) error {
	// The folder is created only now: a wrong cluster id must not create one.
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return err
	}
	needed := make(map[int]bool)
	for _, link := range links {
		version, _, err := chain.Versions(link)
		if err != nil {
			return err
		}
		needed[version] = true
		if slices.ContainsFunc(have, func(h []byte) bool { return bytes.Equal(h, link) }) {
			continue
		}
		if err := WriteFile(r.Path(version), link); err != nil {
			return err
		}
	}
	return r.removeOthers(needed)
}

// removeOthers removes the files of unneeded versions. Files left over from a crash are never read.
func (r Rosters) removeOthers(needed map[int]bool) error {
	versions, err := r.versions()
	if err != nil {
		return err
	}
	for _, v := range versions[:max(0, len(versions)-1)] {
		if needed[v] {
			continue
		}
		failpoint.OfFile(r.Path(v)).Begin()
		if err := os.Remove(r.Path(v)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
