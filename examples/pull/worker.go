// Takes tasks in blocks, and says with the next question how they ended: a worker in Go, with nothing but the standard library.
//
// HQ_PULL_SOCKET names the socket (`eval "$(hq pull env)"`), the bag is the first argument. What a task is to do is here the
// length of its payload.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
)

type task struct {
	ID      string `json:"id"`
	Attempt string `json:"attempt"`
	Payload string `json:"payload"`
}

type answer struct {
	Tasks []task `json:"tasks"`
	State string `json:"state"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

type end struct {
	ID      string `json:"id"`
	Attempt string `json:"attempt"`
	Result  string `json:"result"`
}

func main() {
	connection, err := net.Dial("unix", os.Getenv("HQ_PULL_SOCKET"))
	if err != nil {
		log.Fatal(err)
	}
	requests, answers := json.NewEncoder(connection), json.NewDecoder(bufio.NewReader(connection))
	ask := func(name string, members map[string]any) answer {
		if err := requests.Encode(map[string]any{name: members}); err != nil {
			log.Fatal(err)
		}
		var said answer
		if err := answers.Decode(&said); err != nil {
			log.Fatal(err)
		}
		if said.Error != nil {
			log.Fatal(said.Error.Message)
		}
		return said
	}
	ask("hello", map[string]any{"label": fmt.Sprintf("go-%d", os.Getpid()), "lease": 60})
	done := []end{}
	for {
		said := ask("next", map[string]any{"done": done, "take": 16, "wait": 60, "bags": []string{os.Args[1]}})
		done = []end{}
		for _, task := range said.Tasks {
			done = append(done, end{task.ID, task.Attempt, fmt.Sprint(len(task.Payload))})
		}
		if said.State == "over" {
			ask("sync", map[string]any{})
			return
		}
	}
}
