// Package redisconf quotes values for Redis configuration files. It does not depend on the settings in a file.
package redisconf

import (
	"fmt"
	"strings"
)

// Quote returns a value in the form that Redis reads from a configuration file. Redis supports fewer escapes than Go:
// it reads \u00a0 as u00a0. The value must not contain a zero byte, because Redis would end the value there. Paths
// never contain zero bytes.
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
