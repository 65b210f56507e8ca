package backup

import (
	"bytes"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
)

// sumsName is the last file of a backup. A backup without it is incomplete.
const sumsName = "writ-backup.sha256"

// sums maps file names to SHA-256 digests in hex.
type sums map[string]string

func (s sums) add(name string, sum hash.Hash) { s[name] = fmt.Sprintf("%x", sum.Sum(nil)) }

// text returns the digests in the format of "sha256sum --check".
func (s sums) text() []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&b, "%s  %s\n", s[name], name)
	}
	return b.Bytes()
}

// compare returns an error if text differs from the digests in s.
func (s sums) compare(text io.Reader) error {
	said, err := io.ReadAll(text)
	if err != nil {
		return err
	}
	if !bytes.Equal(said, s.text()) {
		return errors.New("the files do not match their checksums")
	}
	return nil
}
