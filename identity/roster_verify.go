package identity

import (
	"bytes"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity/header"
)

// SignRoster returns the roster's text followed by the signatures of signers: the root, or as many operators of the
// previous version as its threshold requires.
func SignRoster(r *Roster, signers ...Signer) ([]byte, error) {
	signed, err := r.Text()
	if err != nil {
		return nil, err
	}
	text := slices.Clip(signed)
	for _, s := range signers {
		armored, err := s.Sign(RosterNamespace, text)
		if err != nil {
			return nil, err
		}
		signed = append(signed, armored...)
	}
	return signed, nil
}

// VerifyRoster verifies a link as the successor of previous. If previous is nil, the link must be version 1, signed by
// the root that it names. The caller compares its Cluster with the expected one.
//
// A successor has the same cluster and root, the next version and the digest of previous. The root or a threshold of
// the operators of previous must sign it. A link may skip versions if it contains their digests: the history of the
// successor must then match previous and these digests. Previous may itself be a skipped version. A recovery has no
// predecessor, may skip versions, and must be signed by the root.
//
// The roster must not have expired at now; the zero time disables this check, for stored rosters. The error is
// ROSTER_INVALID unless the text or a signature is malformed.
func VerifyRoster(previous *Roster, link []byte, now time.Time) (*Roster, error) {
	skipped, signed, err := splitLink(link)
	if err != nil {
		return nil, err
	}
	text, armored, err := splitAll(signed)
	if err != nil {
		return nil, err
	}
	var next *Roster
	if previous == nil {
		next, err = verifyFirst(text, armored, skipped)
	} else {
		next, err = verifySuccessor(previous, text, armored, skipped)
	}
	if err != nil {
		return nil, err
	}
	next.follows(previous)
	if err := next.notExpired(now); err != nil {
		return nil, err
	}
	return next, nil
}

// verifyFirst verifies version 1: the root that it names must have signed it.
func verifyFirst(text []byte, armored [][]byte, skipped []writ.Digest) (*Roster, error) {
	first, err := ParseRoster(text)
	if err != nil {
		return nil, err
	}
	root := string(first.Root.Marshal())
	keys, err := verifySignatures(text, armored, func(key string) bool { return key == root })
	switch {
	case err != nil:
		return nil, err
	case first.Version != 1 || len(skipped) > 0:
		return nil, badRoster("version %d cannot be the first", first.Version)
	case len(keys) == 0:
		return nil, badRoster("version 1 is not signed by the root that it names")
	}
	return first, nil
}

// verifySuccessor verifies a version that follows previous and the skipped versions. It parses the text only if a
// signer of previous has signed it.
func verifySuccessor(previous *Roster, text []byte, armored [][]byte, skipped []writ.Digest) (*Roster, error) {
	keys, err := verifySignatures(text, armored, previous.isSigner())
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, badRoster("no root operator of version %d has signed it, nor the root", previous.Version)
	}
	next, err := ParseRoster(text)
	if err != nil {
		return nil, err
	}
	skipped, ok := skippedFrom(previous, next.Version-1-len(skipped), skipped)
	if !ok && next.Version > previous.Version {
		return nil, followsAnother(next, previous)
	}
	if err := next.succeeds(previous, keys, skipped); err != nil {
		return nil, err
	}
	next.before = previous.asAncestor()
	for i, digest := range skipped {
		next.before = &ancestor{version: previous.Version + 1 + i, digest: digest, before: next.before}
	}
	return next, nil
}

// notExpired returns ROSTER_INVALID if the roster has expired at now. The zero time disables the check.
func (r *Roster) notExpired(now time.Time) error {
	if now.IsZero() || !now.After(r.Expires) {
		return nil
	}
	return badRoster("version %d expired on %s, and the clock of this machine says %s", r.Version, header.FormatTime(r.Expires), header.FormatTime(now)).
		WithHint("if the clock is right, a root operator signs a new version: writ roster renew")
}

// verifySignatures returns the distinct keys that signed a text and for whose wire form counts returns true. Anyone can
// append hundreds of signatures, so the others are not verified. They are not even parsed if no signature counts.
func verifySignatures(text []byte, armored [][]byte, counts func(key string) bool) (keys []ssh.PublicKey, err error) {
	verified := make(map[string]bool)
	var others [][]byte
	for _, a := range armored {
		key := string(signingKey(a))
		if verified[key] || !counts(key) {
			others = append(others, a)
			continue
		}
		s, err := parseSignature(RosterNamespace, a)
		if err != nil {
			return nil, err
		}
		if string(s.key.Marshal()) != key {
			return nil, malformedSignature("the key of the SSH signature cannot be read")
		}
		if err := s.verify(text); err != nil {
			return nil, err
		}
		verified[key] = true
		keys = append(keys, s.key)
	}
	if len(keys) == 0 {
		return nil, nil
	}
	for _, a := range others {
		if _, err := parseSignature(RosterNamespace, a); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// isSigner returns a function that reports whether a signature by a key, in its wire form, counts for the next version.
func (r *Roster) isSigner() func(key string) bool {
	root, owners := string(r.Root.Marshal()), r.owners()
	return func(key string) bool {
		o := owners[key]
		return key == root || o.principal != nil && o.state == Active && slices.Contains(r.Operators, o.principal.Name)
	}
}

func (r *Roster) succeeds(previous *Roster, keys []ssh.PublicKey, skipped []writ.Digest) error {
	if r.Cluster != previous.Cluster { // this implies the same root, because the cluster's id is the hash of the root
		return badRoster("it belongs to another cluster")
	}
	if r.Version <= previous.Version {
		return badRoster("version %d is not newer than version %d", r.Version, previous.Version)
	}
	root := r.signedByRoot(keys)
	if r.Previous.IsZero() {
		if !root || len(skipped) > 0 {
			return badRoster("version %d is a recovery and not signed by the root", r.Version)
		}
		return nil
	}
	if err := r.continues(previous, skipped); err != nil {
		return err
	}
	if n := previous.operatorsAmong(keys); !root && n < previous.Threshold {
		return badRoster("version %d is signed by %d root operators of version %d, %d are needed", r.Version, n, previous.Version, previous.Threshold)
	}
	return nil
}

// continues checks that r follows the skipped versions, and that these follow previous.
func (r *Roster) continues(previous *Roster, skipped []writ.Digest) error {
	if r.Version != previous.Version+1+len(skipped) || len(skipped) > 0 && r.History.IsZero() {
		return badRoster("version %d cannot follow version %d", r.Version, previous.Version)
	}
	before, err := previous.textDigest()
	if err != nil {
		return err
	}
	if len(skipped) > 0 {
		before = skipped[len(skipped)-1]
	}
	history, err := previous.historyAfter(skipped)
	if err != nil {
		return err
	}
	if r.Previous != before || !r.History.IsZero() && r.History != history {
		return followsAnother(r, previous)
	}
	return nil
}

func followsAnother(next, previous *Roster) error {
	return badRoster("version %d follows another version %d than this verifier has", next.Version, previous.Version).
		WithHint("the root can sign a recovery version")
}

// operatorsAmong counts the root operators (people, not keys) with an active key among keys.
func (r *Roster) operatorsAmong(keys []ssh.PublicKey) int {
	owners := r.owners()
	signed := map[string]bool{}
	for _, key := range keys {
		o := owners[string(key.Marshal())]
		if o.principal != nil && o.state == Active && slices.Contains(r.Operators, o.principal.Name) {
			signed[o.principal.Name] = true
		}
	}
	return len(signed)
}

func (r *Roster) signedByRoot(keys []ssh.PublicKey) bool {
	root := r.Root.Marshal()
	return slices.ContainsFunc(keys, func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), root) })
}

// VerifyRosters verifies a chain of links, version 1 first, against the pin of a join token. It returns the newest
// roster, which must not have expired at now. Versions that a recovery skips may be missing.
func VerifyRosters(pin writ.ClusterID, links [][]byte, now time.Time) (*Roster, error) {
	if len(links) == 0 {
		return nil, badRoster("there is none")
	}
	var last *Roster
	for i, link := range links {
		at := time.Time{} // only the newest must still be valid
		if i == len(links)-1 {
			at = now
		}
		next, err := follow(pin, last, link, at)
		if err != nil {
			return nil, err
		}
		last = next
	}
	return last, nil
}

// follow verifies the next link of a chain that starts at the pin.
func follow(pin writ.ClusterID, last *Roster, link []byte, now time.Time) (*Roster, error) {
	next, err := VerifyRoster(last, link, now)
	if err != nil {
		return nil, err
	}
	if next.Cluster != pin {
		return nil, writ.Errorf(writ.CodeWrongCluster, "the roster belongs to the cluster %s, the pin names %s", next.Cluster, pin).
			WithHint("check the address, or ask for a token of the right cluster")
	}
	return next, nil
}

func badRoster(format string, args ...any) *writ.Error {
	return writ.Errorf(writ.CodeRosterInvalid, "roster: "+format, args...)
}
