package ratchet

import (
	"regexp"
	"strings"
)

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	doNothing  = regexp.MustCompile(`\bDO NOTHING\b`) // SQL
)

// constructions lists patterns that plain English rarely needs: clauses in the place of a noun, vague verbs, and
// idioms. The codebases of pebble, restic, river and Temporal have about 1.5 matches in 1,000 words of comments.
var constructions = []string{
	`what`, `who(?:ever)?`, // name the subject
	`(?:that|those) of`, `(?:those|ones?) (?:who|that|which)`, // repeat the noun
	`nobody`, `nothing`, `everybody`, `somebody`, `anybody`, `whatever`, // name the actor or the thing
	`told`, `tells?`, `says?`, `said`, // send, report, return, log
	`so many`, `so much`, `as many`, `as it is`, `as they are`, `as ever`, `at all`, `for good`, // name the number or leave it out
	`once more`, `anew`, `besides`, `likewise`, // again, also
	`(?:of|by|for|in|from|with|to) (?:what|which|whom|whose)`,                        // begin a new sentence
	`(?:go|goes|went|gone) on`,                                                       // continue
	`(?:has|have|is|are) none`, `is no [a-z]+`, `that there (?:is|are)(?: not|n't)?`, // missing, unknown, empty
}

var marked = regexp.MustCompile(`(?i)\b(?:` + strings.Join(constructions, "|") + `)\b`)

// Marked returns the constructions of a text that plain English rarely needs. A single match is not a fault; many
// matches make a dialect.
func Marked(text string) []string { return marked.FindAllString(text, -1) }
