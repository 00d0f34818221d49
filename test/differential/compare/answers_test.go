package differential

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/klog/v2"
)

var (
	answersProgram = flag.String("answers", "", "the program dra-differential")
	seed           = flag.Uint64("seed", 1, "what the generated cases follow from")
	cases          = flag.Int("cases", 8000, "how many slices, and a tenth as many CDI directories and files")
	only           = flag.Int("only", -1, "the number of one case to run alone")
	show           = flag.Int("show", 5, "how many kinds of disagreement to print")
)

// The SDK's side: one child process for the whole run, a question and an answer a line.
type answers struct {
	mutex  sync.Mutex
	input  io.WriteCloser
	output *bufio.Reader
}

var ours *answers

func TestMain(m *testing.M) {
	flag.Parse()
	if *answersProgram == "" {
		fmt.Fprintln(os.Stderr, "-answers PROGRAM is required: see test/differential/run.sh")
		os.Exit(2)
	}
	// The server logs where its two validations differ, which they do by design for what only one of them stops at.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	fmt.Printf("seed %d, %d cases\n", *seed, *cases)
	os.Exit(run(m))
}

func run(m *testing.M) int {
	program, err := filepath.Abs(*answersProgram)
	if err != nil {
		panic(err)
	}
	child := exec.Command(program)
	child.Stderr = os.Stderr
	ours = &answers{}
	if ours.input, err = child.StdinPipe(); err != nil {
		panic(err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		panic(err)
	}
	ours.output = bufio.NewReaderSize(stdout, 1<<20)
	if err := child.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "start %s: %v\n", program, err)
		return 2
	}
	code := m.Run()
	ours.input.Close()
	if err := child.Wait(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		return 1
	}
	return code
}

// ask sends a request and reads the answer into `answer`.
func (a *answers) ask(t *testing.T, request object, answer any) {
	t.Helper()
	line, err := json.Marshal(request)
	if err != nil {
		t.Fatalf("write the request: %v", err)
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if _, err := a.input.Write(append(line, '\n')); err != nil {
		t.Fatalf("ask %s: %v", *answersProgram, err)
	}
	text, err := a.output.ReadBytes('\n')
	if err != nil {
		t.Fatalf("%s gave no answer: %v\nto %s", *answersProgram, err, line)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		t.Fatalf("%s answered no JSON: %v: %s", *answersProgram, err, text)
	}
}

// The numbers of the cases to run: all, or the one of -only.
func caseNumbers(count int) []int {
	if *only >= 0 {
		return []int{*only}
	}
	numbers := make([]int, count)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// For a report.
func pretty(value any) string {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// The same without the middle of what is very long.
func shortened(value any) string {
	text := pretty(value)
	const limit = 6000
	if len(text) > limit && *only < 0 {
		return text[:limit] + "\n... (-only prints all)"
	}
	return text
}
