//go:build release

package redisd

import (
	"context"

	"writ"
)

// standIn returns an error: release builds contain no Redis, and no interpreter of Lua.
func standIn(context.Context, func(Started)) error {
	return writ.Errorf(writ.CodeUsage, "redis-server is not on PATH, and this build of writ contains no replacement").
		WithHint("apt-get install -y redis-server")
}
