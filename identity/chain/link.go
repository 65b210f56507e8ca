package chain

import (
	"bytes"
	"encoding/binary"

	"writ"
	"writ/identity/header"
)

// linkPrefix starts each link that skips versions. No signed text starts with it.
const linkPrefix = "writ-roster-skips-v1\x00"

// Join returns the link of a signed roster. It puts the digests of skipped versions before the text.
func Join(skipped []writ.Digest, signed []byte) []byte {
	if len(skipped) == 0 {
		return signed
	}
	link := make([]byte, 0, len(linkPrefix)+4+len(skipped)*len(writ.Digest{})+len(signed))
	link = append(link, linkPrefix...)
	link = binary.BigEndian.AppendUint32(link, uint32(len(skipped)))
	for _, d := range skipped {
		link = append(link, d[:]...)
	}
	return append(link, signed...)
}

// Split returns the digests of the versions that a link skips, oldest first, and its signed roster.
func Split(link []byte) (skipped []writ.Digest, signed []byte, err error) {
	rest, ok := bytes.CutPrefix(link, []byte(linkPrefix))
	if !ok {
		return nil, link, nil
	}
	if len(rest) < 4 {
		return nil, nil, header.Malformed("the link of a roster is cut off")
	}
	n := binary.BigEndian.Uint32(rest)
	rest = rest[4:]
	if n == 0 || n >= Milestone || len(rest) < int(n)*len(writ.Digest{}) {
		return nil, nil, header.Malformed("the link of a roster skips %d versions and has %d bytes", n, len(rest))
	}
	skipped = make([]writ.Digest, n)
	for i := range skipped {
		rest = rest[copy(skipped[i][:], rest):]
	}
	return skipped, rest, nil
}

// SkipKnown drops the digests of versions that c already has from `skipped`. The first digest in `skipped` is of
// version follows+1. If c is newer than `follows`, `skipped` must contain the newest version of c with the same digest;
// otherwise SkipKnown returns false.
func (c Chain) SkipKnown(follows int, skipped []writ.Digest) ([]writ.Digest, bool) {
	known := c.newest.Version - follows
	if known <= 0 {
		return skipped, true
	}
	if known > len(skipped) || c.newest.Digest.IsZero() || skipped[known-1] != c.newest.Digest {
		return nil, false
	}
	return skipped[known:], true
}

// Signed returns the signed roster of a link, without the digests of the versions that it skips.
func Signed(link []byte) []byte {
	if _, signed, err := Split(link); err == nil {
		return signed
	}
	return link
}

// Cluster returns the cluster of a link's roster. It verifies no signature.
func Cluster(link []byte) (writ.ClusterID, error) {
	_, signed, err := Split(link)
	if err != nil {
		return "", err
	}
	r := header.NewReader(signed[:min(len(signed), header.MaxLine)])
	r.One("writ-roster")
	return writ.ClusterID(r.One("cluster")), r.Err()
}

// Versions returns the version of a link's roster, and the version that the link follows: 0 for a roster without a
// predecessor. It verifies no signature.
func Versions(link []byte) (version, follows int, err error) {
	skipped, signed, err := Split(link)
	if err != nil {
		return 0, 0, err
	}
	r := header.NewReader(signed[:min(len(signed), header.MaxLine)])
	r.One("writ-roster")
	r.One("cluster")
	version = r.Number("version")
	r.One("created")
	r.One("expires")
	if previous := r.One("previous"); previous != "-" {
		follows = version - 1 - len(skipped)
	}
	return version, follows, r.Err()
}
