// Package redisconf writes values into files of settings of Redis. It must not know the settings.
package redisconf

import (
	"fmt"
	"strings"
)

// Quote returns a value as Redis reads it from a file of settings. Redis knows fewer escapes than Go: it reads \u00a0 as u00a0. The value must
// not contain a zero byte.
func Quote(value string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(value) {
		switch c := value[i]; {
		case c == '"' || c == '\\':
			b.Write([]byte{'\\', c})
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
