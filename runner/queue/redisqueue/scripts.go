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

// A node may not bring scripts of its own to Redis: its account has EVALSHA and neither EVAL nor SCRIPT LOAD. The supervisor loads the scripts
// that runners use, and loads them again when Redis has lost them.
//
// Whatever Redis has loaded any node can call, with its own rights on its own keys, and with any arguments. So each script that is loaded must
// end soon whatever it is given: loops are over what is there, and what multiplies with the length of a list is bounded by two million comparisons.

// script is one with its text, by which Redis knows it.
type script struct {
	*redis.Script
	text string
}

func newScript(text string) script { return script{redis.NewScript(text), text} }

// nodeScripts are the scripts of runners of this version.
func nodeScripts() []script {
	return append(slices.Collect(maps.Values(asynqScripts)), takeScript, endScript, putBackScript, finishScript)
}

// maxMoved is how many tasks are moved by one script. It is few, so that long lists stay within the bound of the script.
const maxMoved = 20

// loadScripts makes Redis know the scripts of runners. older says whether a node is there that needs those of before. When no such node is
// left, Redis forgets them together with all others, and knows the present ones again at once.
func loadScripts(ctx context.Context, client *redis.Client, older bool) error {
	present := nodeScripts()
	before := slices.Collect(maps.Values(olderScripts))
	var hashes []string
	for _, s := range slices.Concat(present, before) {
		hashes = append(hashes, s.Hash())
	}
	known, err := client.ScriptExists(ctx, hashes...).Result()
	if err != nil {
		return err
	}
	missing := slices.Contains(known[:len(present)], false)
	stale := slices.Contains(known[len(present):], true)
	wanted := present
	if older {
		wanted = slices.Concat(present, before)
		missing = slices.Contains(known, false)
		stale = false
	}
	if !missing && !stale {
		return nil
	}
	_, err = client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		if stale {
			p.ScriptFlush(ctx)
		}
		for _, s := range wanted {
			p.ScriptLoad(ctx, s.text)
		}
		return nil
	})
	return err
}

// scriptHook lets accounts that may not use EVAL wait for the supervisor. go-redis says EVAL when Redis does not know a script: Redis was started
// again, or somebody had it forget its scripts. If EVAL is refused the script will be loaded within a second or so.
type scriptHook struct{}

// A script that Redis does not know is asked for so often, with a pause between; together more than five of the supervisor's looks.
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
		sum := sha1.Sum([]byte(text)) // as Redis names scripts
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
