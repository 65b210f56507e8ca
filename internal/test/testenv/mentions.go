package testenv

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mentions reports whether a text contains each of some words: names, numbers, codes, commands. It is for the facts of
// a message whose wording may change. A word inside a longer word does not count, and neither does a command of writ
// with more flags.
func Mentions(text string, words ...string) bool {
	for _, word := range words {
		if !mentions(text, word) {
			return false
		}
	}
	return true
}

func mentions(text, word string) bool {
	for at := 0; ; {
		i := strings.Index(text[at:], word)
		if i < 0 || word == "" {
			return false
		}
		before, after := text[:at+i], text[at+i+len(word):]
		last, _ := utf8.DecodeLastRuneInString(before)
		first, _ := utf8.DecodeRuneInString(after)
		longer := strings.HasPrefix(word, "writ ") && strings.HasPrefix(after, " --")
		if !inWord(last) && !inWord(first) && !longer {
			return true
		}
		at += i + len(word)
	}
}

func inWord(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_')
}
