// Package hidden detects characters that make a text look different from its content: invisible characters, characters
// that change the text direction, and letters that look like Latin letters. It does not depend on the subject of the
// text.
package hidden

import (
	"strings"
	"unicode"
)

// fillers are characters without a glyph that Unicode does not classify as format characters.
var fillers = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x034f, 0x034f, 1}, {0x115f, 0x1160, 1}, {0x17b4, 0x17b5, 1}, {0x180b, 0x180f, 1}, {0x2028, 0x2029, 1},
		{0x2060, 0x206f, 1}, {0x2800, 0x2800, 1}, {0x3164, 0x3164, 1}, {0xfe00, 0xfe0e, 1}, {0xffa0, 0xffa0, 1},
		{0xfff0, 0xfff8, 1},
	},
	R32: []unicode.Range32{{0x1bca0, 0x1bca3, 1}, {0x1d173, 0x1d17a, 1}, {0xe0000, 0xe0fff, 1}},
}

// Is reports whether a character is invisible or changes the direction of the text around it. It returns false for
// control characters, and for characters that only join emoji.
func Is(r rune) bool {
	return r >= 0x80 && (unicode.Is(unicode.Cf, r) || unicode.Is(fillers, r))
}

// IsControl reports whether r is a control character other than tab and LF. Terminals act on these characters, and no
// text needs them.
func IsControl(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\n' }

// IndexControl returns the index of the first control character of a text in UTF-8, or -1. See IsControl. It reads bytes:
// decoding each character takes several times as long, and texts have up to a MiB.
func IndexControl(text []byte) int {
	for i, b := range text {
		switch {
		case b >= ' ' && b != 0x7f && b != 0xc2, b == '\t', b == '\n':
		case b != 0xc2: // one of the control characters of ASCII
			return i
		case i+1 < len(text) && text[i+1] >= 0x80 && text[i+1] < 0xa0: // the other control characters are U+0080 to U+009F
			return i
		}
	}
	return -1
}

// Turns reports whether a character changes the text direction.
func Turns(r rune) bool {
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' || r == '\u200e' || r == '\u200f' ||
		r == '\u061c'
}

// likeLatin lists letters of other scripts that look like a Latin letter in most fonts.
const likeLatin = "аеорсухіјѕһԁԛԝѵӏАВЕКМНОРСТУХІЈЅӀҮԚԜԌ" + // Cyrillic
	"ονακρυιΑΒΕΖΗΙΚΜΝΟΡΤΥΧϲϳ" + // Greek
	"օոսհցզՕՍ" + // Armenian
	"ᎠᎡᎢᎪᎬᎳᎷᎻᏀᏃᏆᏚᏟᏢᏦᏮ" + // Cherokee
	"ɑɡꓐꓑꓒꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓤꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ" // IPA, Lisu

// Lookalike reports whether a letter or digit outside ASCII looks like an ASCII letter or digit.
func Lookalike(r rune) bool {
	switch {
	case r < 0x80:
		return false
	case r >= 0xff10 && r <= 0xff5a, r >= 0x1d400 && r <= 0x1d7ff: // full-width and mathematical letters
		return true
	}
	return strings.ContainsRune(likeLatin, r)
}

// Disguised reports whether a word looks like another word: it mixes Latin letters with lookalikes or, for a name,
// consists only of lookalikes.
func Disguised(word string, isName bool) bool {
	latin, alike, others := 0, 0, 0
	for _, r := range word {
		switch {
		case Lookalike(r):
			alike++
		case unicode.Is(unicode.Latin, r):
			latin++
		case unicode.IsLetter(r):
			others++
		}
	}
	return alike > 0 && (latin > 0 || isName && others == 0)
}
