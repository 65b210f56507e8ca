//go:build release

package daemon

import (
	"context"

	"writ"
)

// standIn: a program of a release brings no Redis, and no interpreter of Lua with it.
func standIn(context.Context, func(Started)) error {
	return writ.Errorf(writ.CodeUsage, "redis-server is not on PATH, and this program has no Redis of its own").WithHint("apt-get install -y redis-server")
}
