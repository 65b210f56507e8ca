package directory

import (
	"testing"

	"writ/sal"
	"writ/sal/saltest"
)

func TestTreesExam(t *testing.T) {
	saltest.RunTrees(t, saltest.TreesExam{Open: func(_ testing.TB, host string, step func(string)) sal.Trees {
		return &Trees{Dir: host, Step: step}
	}})
}
