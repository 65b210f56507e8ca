package confine_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"writ/internal/confine"
)

func numbers(t *testing.T, text string) *confine.Accounts {
	t.Helper()
	a, err := confine.ParseAccounts(text)
	if err != nil || a.Numbers() != text {
		t.Fatalf("%s is %+v, %v", text, a, err)
	}
	return a
}

// claimVar has the lock file for a child process that claims numbers and is killed.
const claimVar = "WRIT_TEST_CLAIM"

func TestClaimedNumbersEndWithTheNode(t *testing.T) {
	if path := os.Getenv(claimVar); path != "" {
		claim, err := numbers(t, "300000-365535").Claim(path)
		if err != nil {
			t.Fatal(err)
		}
		defer claim.Close()
		fmt.Println("claimed")
		select {}
	}
	path := filepath.Join(t.TempDir(), "users")
	mine, err := numbers(t, "200000-265535").Claim(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, overlapping := range []string{"200000-265535", "190000-200000", "265535-300000", "210000-220000", "100000-400000"} {
		_, err := numbers(t, overlapping).Claim(path)
		taken, ok := errors.AsType[*confine.Taken](err)
		if !ok || taken.First != 200000 || taken.Last != 265535 || taken.Others() != "265536-331071" {
			t.Errorf("%s: %v", overlapping, err)
		}
	}
	if err := mine.Close(); err != nil {
		t.Fatal(err)
	}
	other := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	other.Env = append(os.Environ(), claimVar+"="+path)
	said, err := other.StdoutPipe()
	if err == nil {
		err = other.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(said).ReadString('\n'); line != "claimed\n" {
		t.Errorf("output of the other process = %q, %v", line, err)
	}
	if _, err := numbers(t, "200000-265535").Claim(path); err != nil {
		t.Errorf("claim the numbers of an ended node: %v", err)
	}
	if _, err := numbers(t, "300000-365535").Claim(path); err == nil {
		t.Error("two nodes have the same")
	}
	_ = other.Process.Kill()
	_ = other.Wait()
	if _, err := numbers(t, "300000-365535").Claim(path); err != nil {
		t.Errorf("claim the numbers of a killed node: %v", err)
	}
}

func TestAlternativeNumbersAreValid(t *testing.T) {
	for _, taken := range []confine.Taken{{First: confine.DefaultFirst, Last: confine.DefaultLast}, {First: 1<<31 - 70000, Last: 1<<31 - 2}, {First: 4294900000, Last: 4294967294}} {
		a, err := confine.ParseAccounts(taken.Others())
		if err != nil || a.SharedGroup <= taken.Last && a.Last >= taken.First {
			t.Errorf("suggestion instead of %+v = %s, %v", taken, taken.Others(), err)
		}
	}
}
