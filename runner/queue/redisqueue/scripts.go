package redisqueue

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"writ/internal/sleep"
)

// Nodes may not load scripts into Redis: their accounts have EVALSHA, but neither EVAL nor SCRIPT LOAD. The supervisor
// loads the scripts of runners, and reloads them if Redis loses them.
//
// A node can call every loaded script, with any keys that its account permits and any arguments. Therefore, each loaded
// script must terminate quickly for all inputs: loops only cover existing entries, and work that multiplies with the
// length of a list is limited to two million comparisons.

// script is a Redis script with its text. Redis identifies a script by the hash of the text.
type script struct {
	*redis.Script
	text string
}

func newScript(text string) script { return script{redis.NewScript(text), text} }

// nodeScripts returns the scripts of runners of this version.
func nodeScripts() []script {
	return append(slices.Collect(maps.Values(asynqScripts)), takeScript, endScript, putBackScript, finishScript)
}

// maxMoved limits the tasks that one script moves. It is small, so that long lists stay within the limit of the script.
const maxMoved = 20

// loadScripts loads the scripts of runners into Redis.
func loadScripts(ctx context.Context, client *redis.Client) error {
	all := nodeScripts()
	var hashes []string
	for _, s := range all {
		hashes = append(hashes, s.Hash())
	}
	known, err := client.ScriptExists(ctx, hashes...).Result()
	if err != nil || !slices.Contains(known, false) {
		return err
	}
	_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, s := range all {
			p.ScriptLoad(ctx, s.text)
		}
		return nil
	})
	return err
}

// scriptHook makes accounts without EVAL wait for the supervisor. go-redis sends EVAL if Redis has no script with the
// hash, after a restart or a SCRIPT FLUSH. If EVAL is forbidden, scriptHook repeats EVALSHA until the supervisor has
// loaded the script, which takes about a second.
type scriptHook struct{}

// scriptAsked is the number of attempts for an unknown script, and scriptPause is the pause between them. Together they
// last five seconds, and the supervisor checks the scripts about every second.
const (
	scriptAsked = 50
	scriptPause = 100 * time.Millisecond
)

func (scriptHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (scriptHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (scriptHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		eval, ok := cmd.(*redis.Cmd)
		if !ok || cmd.Name() != "eval" || len(cmd.Args()) < 2 || !redis.HasErrorPrefix(err, "NOPERM") {
			return err
		}
		text, _ := cmd.Args()[1].(string)
		sum := sha1.Sum([]byte(text)) // Redis names scripts by their SHA-1
		args := slices.Concat([]any{"evalsha", hex.EncodeToString(sum[:])}, cmd.Args()[2:])
		for range scriptAsked {
			if wait := sleep.For(ctx, scriptPause); wait != nil {
				return err
			}
			again := redis.NewCmd(ctx, args...)
			if failed := next(ctx, again); redis.HasErrorPrefix(failed, "NOSCRIPT") {
				continue
			}
			eval.SetErr(again.Err())
			eval.SetVal(again.Val())
			return again.Err()
		}
		return err
	}
}
