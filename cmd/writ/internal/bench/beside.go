package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"writ/cmd/writ/internal/bench/peer"
)

// AsynqName is the hidden command that runs bare asynq.
const AsynqName = "asynq"

// beside is a system to compare with writ. It runs in a child process. Its servers are children of that process, except
// the Redis of asynq, which the cluster starts.
type beside struct {
	peer.About
	process *child
	redis   int // pid of its Redis, 0 for none
}

func (b *beside) about() (name, durability string) { return b.Name, b.Durability }

func (b *beside) prepare(peer.Order) error { return nil }

func (b *beside) carryOut(o peer.Order) (peer.Took, error) {
	var answer peer.Answer
	if err := b.process.ask(o, &answer); err != nil {
		return peer.Took{}, err
	}
	if answer.Error != "" {
		return peer.Took{}, errors.New(answer.Error)
	}
	return answer.Took, nil
}

func (b *beside) cpu() (map[string]time.Duration, error) {
	pid := b.process.cmd.Process.Pid
	own, err := usageOf(pid)
	if err != nil {
		return nil, err
	}
	all, err := cpuOfTree(pid)
	if err != nil {
		return nil, err
	}
	used := map[string]time.Duration{"client and worker": own.CPU}
	if all > own.CPU {
		used["server"] = all - own.CPU
	}
	if b.redis != 0 {
		redis, err := usageOf(b.redis)
		if err != nil {
			return nil, err
		}
		used["redis"] = redis.CPU
	}
	return used, nil
}

// besideAll starts the systems to compare with, asynq first. Closing the cluster stops them.
func (s *Speed) besideAll(on *cluster, r *SpeedReport) (all []system, err error) {
	redis, err := on.startRedis(filepath.Join(s.Data, "asynq")) // a separate instance with the same settings
	if err != nil {
		return nil, fmt.Errorf("start a Redis for asynq: %w", err)
	}
	for _, journal := range []bool{false, true} {
		b := &beside{redis: redis.PID}
		b.process, err = startChild(on.ctx, on.logs, &b.About, redisAt(redis.URL), AsynqName, "--slots", strconv.Itoa(s.Slots), "--poll", s.AsynqPoll.String(),
			"--journal="+strconv.FormatBool(journal))
		if err != nil {
			return nil, err
		}
		on.processes = append(on.processes, b.process)
		all = append(all, b)
	}
	for _, program := range s.Beside {
		more, err := s.besideOf(on, program, r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", program, err)
		}
		all = append(all, more...)
	}
	return all, nil
}

// besideOf starts the systems that a program offers, each in a separate process.
func (s *Speed) besideOf(on *cluster, program string, r *SpeedReport) (all []system, err error) {
	list, err := exec.CommandContext(on.ctx, program).Output()
	if err != nil {
		return nil, fmt.Errorf("list its systems: %w", err)
	}
	var offers peer.Offers
	if err := json.Unmarshal(list, &offers); err != nil {
		return nil, fmt.Errorf("list its systems: %w", err)
	}
	for _, offer := range offers.Systems {
		if offer.Missing != "" {
			r.Missing = append(r.Missing, offer.Name+": "+offer.Missing)
			s.Note("%s is not measured: %s", offer.Name, offer.Missing)
			continue
		}
		dir := filepath.Join(s.Data, "beside-"+strconv.Itoa(len(on.processes)))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make a directory for %s: %w", offer.Name, err)
		}
		b := &beside{}
		b.process, err = startProgram(on.ctx, on.logs, &b.About, nil, offer.Name, program, offer.Name, "-dir", dir, "-slots", strconv.Itoa(s.Slots))
		if err != nil {
			return nil, err
		}
		on.processes = append(on.processes, b.process)
		all = append(all, b)
	}
	return all, nil
}
