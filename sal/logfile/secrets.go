package logfile

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Secrets maps each secret that a log may contain to its replacement.
type Secrets map[string]string

// longest returns the length of the longest secret.
func (s Secrets) longest() (n int) {
	for secret := range s {
		n = max(n, len(secret))
	}
	return n
}

// skip returns the first position at or after `from` that is not inside a secret. It does not trust `from`: a client
// may send any position, and if the beginning of a log was removed, the remaining text may start inside a secret. If
// the text may be the beginning of a secret that is not completely written yet, skip returns its start, so that read
// withholds it.
func (s Secrets) skip(v *view, from int64) (int64, error) {
	longest := int64(s.longest())
	if longest == 0 {
		return from, nil
	}
	least := max(0, from-longest+1)
	at, text, err := v.read(least, 2*longest)
	for err == nil && len(text) > 0 && at+int64(len(text)) < from { // skip a removed range
		at, text, err = v.read(at+int64(len(text)), 2*longest)
	}
	if err != nil || at > from || at+int64(len(text)) < from {
		return from, err
	}
	k := int(from - at)
	if at > least {
		k = max(k, s.tail(text))
	}
	for i := 0; i < k; i++ {
		whole, begun := s.at(text[i:])
		if begun {
			return at + int64(i), nil
		}
		if i+whole > k { // this secret ends after k
			k, i = i+whole, -1 // start again: another secret may begin before the new k
		}
	}
	return at + int64(k), nil
}

// tail returns how many bytes at the start of text may be the end of a secret whose beginning was removed.
func (s Secrets) tail(text []byte) (n int) {
	for secret := range s {
		for i := 1; i < len(secret); i++ {
			if bytes.HasPrefix(text, []byte(secret[i:])) {
				n = max(n, len(secret)-i)
				break
			}
		}
	}
	return n
}

// at returns the length of the longest secret that text begins with, and whether all of text may be the beginning of a
// longer secret.
func (s Secrets) at(text []byte) (whole int, begun bool) {
	for secret := range s {
		switch {
		case len(text) < len(secret):
			begun = begun || strings.HasPrefix(secret, string(text))
		case string(text[:len(secret)]) == secret:
			whole = max(whole, len(secret))
		}
	}
	return whole, begun
}

// endBefore returns the largest length up to n at which a cut of text divides no character, secret or possible
// beginning of a secret. A secret at the start of text is always included as a whole, even beyond n.
func (s Secrets) endBefore(text []byte, n int) int {
	for i := 0; i < n; {
		whole, begun := s.at(text[i:])
		switch {
		case begun:
			n = i
		case i+whole <= n:
			i += max(whole, 1)
		case i == 0:
			return whole
		default:
			n = i
		}
	}
	for back := 1; back < utf8.UTFMax && back <= n; back++ {
		if !utf8.RuneStart(text[n-back]) {
			continue
		}
		if !utf8.FullRune(text[n-back : n]) {
			n -= back
		}
		break
	}
	return n
}

// HidePart is Hide for the first part of a text. It also removes a possible beginning of a secret at the end of the
// part.
func (s Secrets) HidePart(text []byte) string { return s.Hide(text[:s.endBefore(text, len(text))]) }

// HideEnd is Hide for the last part of a text. It also removes a possible end of a secret at the start of the part.
func (s Secrets) HideEnd(text []byte) string {
	k := s.tail(text)
	for i := 0; i < k; i++ {
		if whole, _ := s.at(text[i:]); i+whole > k { // this secret ends after k
			k, i = i+whole, -1
		}
	}
	return s.Hide(text[k:])
}

// Hide replaces each secret in text by its replacement and invalid UTF-8 by "?", and removes zero bytes.
func (s Secrets) Hide(text []byte) string {
	var pairs []string
	for _, secret := range slices.SortedFunc(maps.Keys(s),
		func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) }) {
		pairs = append(pairs, secret, s[secret]) // longest first: a secret may begin with another one
	}
	told := strings.NewReplacer(pairs...).Replace(string(text))
	return strings.ToValidUTF8(strings.ReplaceAll(told, "\x00", ""), "?")
}
