package differential

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
)

type (
	object = map[string]any
	list   = []any
)

// A source of choices. The same seed and case number give the same choices on every machine.
type chooser struct{ *rand.Rand }

func newChooser(seed uint64, number int) chooser {
	return chooser{rand.New(rand.NewPCG(seed, uint64(number)))}
}

// True in one of n cases.
func (c chooser) oneIn(n int) bool { return c.IntN(n) == 0 }

func (c chooser) between(low, high int) int { return low + c.IntN(high-low+1) }

func pick[T any](c chooser, choices ...T) T { return choices[c.IntN(len(choices))] }

// Go's maps have no order; what is chosen from them must.
func sortedKeys(m object) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

func clone(value any) any {
	switch value := value.(type) {
	case object:
		copied := make(object, len(value))
		for key, member := range value {
			copied[key] = clone(member)
		}
		return copied
	case list:
		copied := make(list, len(value))
		for i, item := range value {
			copied[i] = clone(item)
		}
		return copied
	default:
		return value
	}
}

func letters(n int) string { return strings.Repeat("a", n) }

func labels(n int) string { // a DNS subdomain of n bytes
	text := strings.Repeat(letters(50)+".", n/51+1)[:n]
	return strings.TrimSuffix(text, ".") + strings.Repeat("a", n-len(strings.TrimSuffix(text, ".")))
}

func numbered(name string, i int) string { return fmt.Sprintf("%s%d", name, i) }
