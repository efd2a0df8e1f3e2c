// Is there an order of what clients did to registers, each at some moment between its call and its answer, by which all
// answers are right? Reads the touches of workload.py from stdin; prints "ok", or the registers for which there is none.
// The search is porcupine's.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

type touch struct {
	Process  int    `json:"process"`
	Register int    `json:"register"`
	Change   bool   `json:"change"`
	Value    string `json:"value"`
	Before   string `json:"before"`
	Call     int64  `json:"call"`
	Answered int64  `json:"answered"`
	Done     string `json:"done"`
}

// The state is the value that the register has.
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		now, one := state.(string), input.(touch)
		switch {
		case !one.Change:
			return now == one.Value, now
		case one.Done == "no":
			return now != one.Before, now
		}
		return now == one.Before, one.Value
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v", input) },
}

// Without what keeps the search from ending. Values are unique, so a change whose client does not know what became of it
// either was seen, by whoever read its value or changed the register from it: then it was done before that one's answer.
// Or it was not: then it was never done, or is what was done last, which explains only the last refusals.
func decided(history []touch) []touch {
	seenBy := map[string]int64{}
	lastSeen := int64(0)
	for _, one := range history {
		value := one.Value
		if one.Change {
			value = one.Before
		}
		if one.Done != "yes" {
			continue
		}
		if at, there := seenBy[value]; !there || one.Answered < at {
			seenBy[value] = one.Answered
		}
		lastSeen = max(lastSeen, one.Call)
	}
	var kept []touch
	for _, one := range history {
		at, seen := seenBy[one.Value]
		switch {
		case one.Done == "unknown" && !seen, one.Done == "no" && one.Answered >= lastSeen:
			continue
		case one.Done == "unknown":
			one.Done, one.Answered = "yes", max(at, one.Call)
		}
		kept = append(kept, one)
	}
	return kept
}

func main() {
	var touches []touch
	if err := json.NewDecoder(os.Stdin).Decode(&touches); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	histories := map[int][]touch{}
	for _, one := range touches {
		histories[one.Register] = append(histories[one.Register], one)
	}
	bad := false
	for number, history := range histories {
		var operations []porcupine.Operation
		for _, one := range decided(history) {
			operations = append(operations, porcupine.Operation{
				ClientId: one.Process, Input: one, Call: one.Call, Output: one, Return: one.Answered})
		}
		switch porcupine.CheckOperationsTimeout(register, operations, 5*time.Minute) {
		case porcupine.Illegal:
			fmt.Printf("register %d: no order explains its %d operations\n", number, len(operations))
			bad = true
		case porcupine.Unknown:
			fmt.Printf("register %d: not decided within 5 minutes\n", number)
			bad = true
		}
	}
	if bad {
		os.Exit(1)
	}
	fmt.Println("ok")
}
