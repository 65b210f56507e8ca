package redisqueue

import (
	"github.com/redis/go-redis/v9"

	"writ"
	"writ/internal/serveraddr"
)

// parse parses the URL of a Redis. Its error, a USAGE error, contains no part of a password.
func parse(text string) (*redis.Options, error) {
	_, err := serveraddr.Parse(text)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "the URL of Redis cannot be used: %v", err).
			WithHint("write redis://user:password@host:port/0 or unix:///path/to/redis.sock; %s", serveraddr.Hint)
	}
	options, err := redis.ParseURL(text)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "the URL of Redis cannot be used: %v", err).
			WithHint("write redis://host:port/0, rediss://user:password@host:port/0 or unix:///path/to/redis.sock")
	}
	return options, nil
}
