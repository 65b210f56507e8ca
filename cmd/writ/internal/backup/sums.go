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

// sumsName is the last file of a backup: without it the backup is not whole.
const sumsName = "writ-backup.sha256"

// sums are the SHA-256 digests of files by name, in hexadecimal.
type sums map[string]string

func (s sums) add(name string, sum hash.Hash) { s[name] = fmt.Sprintf("%x", sum.Sum(nil)) }

// text is what "sha256sum --check" reads.
func (s sums) text() []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&b, "%s  %s\n", s[name], name)
	}
	return b.Bytes()
}

// compare returns an error if the text does not say exactly this.
func (s sums) compare(text io.Reader) error {
	said, err := io.ReadAll(text)
	if err != nil {
		return err
	}
	if !bytes.Equal(said, s.text()) {
		return errors.New("its files are not those that were backed up")
	}
	return nil
}
