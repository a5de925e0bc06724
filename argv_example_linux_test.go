package srt_test

import (
	"context"
	"fmt"
	"log"
	"os/exec"

	srt "github.com/srt-sandbox/srt"
	"github.com/srt-sandbox/srt/config"
)

// An agent spawns its shells itself and cannot be told to call a library. It gets
// the argv as "its shell".
func ExampleCmd_Argv() {
	// In main, before anything else: srt.MaybeExecHelper()
	ctx := context.Background()
	cfg := config.Default()
	cfg.Filesystem.AllowWrite = []config.PathEntry{{Path: "."}}
	sb, err := srt.New(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Close()

	cmd := sb.Command(ctx, "bash")
	argv, err := cmd.Argv()
	if err != nil {
		log.Fatal(err)
	}
	// What follows could be another process, in another language.
	argv = append(argv, "-c", "echo from inside")
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	fmt.Printf("%s%v, %v\n", out, err, cmd.Wait())
	// Output:
	// from inside
	// <nil>, <nil>
}
