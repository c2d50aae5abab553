"""Makes workflows as WfCommons learned them from real ones, and prints each as a line of JSON:
{"name": NAME, "tasks": [[CATEGORY, SECONDS, [PLACES OF PARENTS]], ...]}, parents before children.

usage: make.py TASKS    so many tasks in each workflow, about
"""

import json
import random
import sys

import numpy
from wfcommons import BlastRecipe, EpigenomicsRecipe, GenomeRecipe, MontageRecipe, WorkflowGenerator


def ordered(workflow) -> list:
    """Tasks with their parents' places, each after its parents."""
    parents = {task.task_id: list(task.task_parents) if hasattr(task, "task_parents") else [] for task in workflow.tasks.values()}
    for source, target in workflow.edges:
        if source not in parents[target]:
            parents[target].append(source)
    places: dict[str, int] = {}
    found = []
    waiting = sorted(parents)
    while waiting:
        ready = [name for name in waiting if all(parent in places for parent in parents[name])]
        if not ready:
            sys.exit("a workflow with a cycle")
        for name in ready:
            task = workflow.tasks[name]
            places[name] = len(found)
            category = task.category or task.name
            found.append([category, round(task.runtime, 3), sorted(places[parent] for parent in parents[name])])
        waiting = [name for name in waiting if name not in places]
    return found


def main() -> None:
    count = int(sys.argv[1])
    for recipe in (MontageRecipe, EpigenomicsRecipe, GenomeRecipe, BlastRecipe):
        random.seed(7)
        numpy.random.seed(7)
        workflow = WorkflowGenerator(recipe.from_num_tasks(count)).build_workflow()
        name = recipe.__name__.removesuffix("Recipe")
        print(json.dumps({"name": name, "tasks": ordered(workflow)}))


main()
