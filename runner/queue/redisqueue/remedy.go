package redisqueue

import (
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"writ/internal/tlsfault"
)

// remedies lists the errors of Redis whose cause only an operator can remove, with the remedy. The first match applies.
var remedies = []struct {
	is     func(error) bool
	remedy string
}{
	{tlsfault.Rejected, "Redis requires a valid certificate that its CA has signed: --redis-cert and --redis-key"},
	{
		redis.IsReadOnlyError,
		"this Redis is a replica: give the address of its primary in --redis, or make it a primary with REPLICAOF NO ONE",
	},
	{redis.IsMasterDownError, "this Redis is a replica without its primary: give the address of the primary in --redis"},
	{isClusterError, "this Redis is part of a Redis Cluster: use one with `cluster-enabled no`"},
	{redis.IsOOMError, "its memory is full: raise maxmemory in redis.conf, or find the cause with `writ doctor --redis URL`"},
	{redis.IsNoReplicasError, "it waits for missing replicas: start them, or set min-replicas-to-write 0"},
	{redis.IsMaxClientsError, "it accepts no more connections: raise maxclients in redis.conf"},
	{redis.IsLoadingError, "it loads its data after a start; writ continues by itself"},
	{redis.IsAuthError, "check the user and the password in the address of --redis"},
	{redis.IsPermissionError, "give the user the rights that docs/manual/redis.md lists"},
	{prefixed("MISCONF"), "it cannot save its data: free space in its directory, and read its log"},
	{prefixed("DENIED"), "it is in protected mode: give it a password (requirepass) and the address to listen on (bind)"},
	{
		prefixed("unknown command", "Unknown Redis command called from script"),
		"a command is renamed or disabled: remove rename-command from redis.conf, or use a Redis or Valkey of version 7 or later",
	},
	{prefixed("DB index is out of range"), "use a lower number of the database in --redis, or raise databases in redis.conf"},
}

// remedyFor returns the remedy for an error of Redis, or "".
func remedyFor(err error) string {
	for _, r := range remedies {
		if r.is(err) {
			return r.remedy
		}
	}
	return ""
}

// isClusterError reports whether a node of a Redis Cluster rejected a key.
func isClusterError(err error) bool {
	_, moved := redis.IsMovedError(err)
	_, asked := redis.IsAskError(err)
	return moved || asked || redis.IsClusterDownError(err) || redis.IsTryAgainError(err) ||
		redis.HasErrorPrefix(err, "CROSSSLOT")
}

// prefixed returns a function that reports whether Redis returned an error with one of the prefixes.
func prefixed(prefixes ...string) func(error) bool {
	return func(err error) bool {
		if _, reply := errors.AsType[redis.Error](err); !reply {
			return false
		}
		return slices.ContainsFunc(prefixes, func(p string) bool { return redis.HasErrorPrefix(err, p) })
	}
}
