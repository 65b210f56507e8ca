package terminal

import "regexp"

// secretPattern finds what opens something by itself: private keys of SSH and age, and join tokens, also without their end, as in a text
// that was cut.
var secretPattern = regexp.MustCompile(`-----BEGIN[A-Z ]*PRIVATE KEY-----(?s:.*?)(-----END[A-Z ]*PRIVATE KEY-----|\z)` +
	`|b3BlbnNzaC1rZXktdjEA(?:[A-Za-z0-9+/=\s]|\\[nrt])*` +
	`|AGE-SECRET-KEY-[0-9A-Za-z-]*` +
	`|(writ[0-9]+\.[a-z2-7]{8,}\.)[A-Za-z0-9_-]{8,}`)

// redact takes secrets out of a text that is shown. Errors repeat what somebody typed, and that may be a key where its file was meant.
func redact(s string) string { return secretPattern.ReplaceAllString(s, "${2}(secret, not shown)") }
