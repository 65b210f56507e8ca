package identity

import (
	"bytes"
	"encoding/binary"

	"writ"
	"writ/identity/header"
)

// A link is a signed roster as it is sent and stored. If it does not directly follow the reader's version, the digests
// of the skipped versions precede the text. The history in the roster proves them.

// linkPrefix starts each link that skips versions. No signed text starts with it.
const linkPrefix = "writ-roster-skips-v1\x00"

// newLink puts the digests of skipped versions before a signed roster.
func newLink(skipped []writ.Digest, signed []byte) []byte {
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

// splitLink returns the digests of the versions that a link skips, oldest first, and its signed roster.
func splitLink(link []byte) (skipped []writ.Digest, signed []byte, err error) {
	rest, ok := bytes.CutPrefix(link, []byte(linkPrefix))
	if !ok {
		return nil, link, nil
	}
	if len(rest) < 4 {
		return nil, nil, header.Malformed("the link of a roster is cut off")
	}
	n := binary.BigEndian.Uint32(rest)
	rest = rest[4:]
	if n == 0 || n >= milestone || len(rest) < int(n)*len(writ.Digest{}) {
		return nil, nil, header.Malformed("the link of a roster skips %d versions and has %d bytes", n, len(rest))
	}
	skipped = make([]writ.Digest, n)
	for i := range skipped {
		rest = rest[copy(skipped[i][:], rest):]
	}
	return skipped, rest, nil
}

// skippedFrom drops the digests up to the version of previous. skipped starts with the version after follows. It
// returns false if skipped has another digest for the version of previous.
func skippedFrom(previous *Roster, follows int, skipped []writ.Digest) ([]writ.Digest, bool) {
	known := previous.Version - follows
	if known <= 0 {
		return skipped, true
	}
	digest, err := previous.textDigest()
	if err != nil || known > len(skipped) || skipped[known-1] != digest {
		return nil, false
	}
	return skipped[known:], true
}

// SignedRoster returns the signed roster of a link, without the digests of the versions that it skips.
func SignedRoster(link []byte) []byte {
	if _, signed, err := splitLink(link); err == nil {
		return signed
	}
	return link
}

// LinkCluster returns the cluster of a link's roster. It verifies no signature.
func LinkCluster(link []byte) (writ.ClusterID, error) {
	_, signed, err := splitLink(link)
	if err != nil {
		return "", err
	}
	r := header.NewReader(signed[:min(len(signed), header.MaxLine)])
	r.One("writ-roster")
	return writ.ClusterID(r.One("cluster")), r.Err()
}

// LinkVersions returns the version of a link's roster, and the version that the link follows: 0 for a roster without a
// predecessor. It verifies no signature.
func LinkVersions(link []byte) (version, follows int, err error) {
	skipped, signed, err := splitLink(link)
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
