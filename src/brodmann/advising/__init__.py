"""From labelled files to a decision: which tasks share a model, what each gains, and what it costs.

    files ─ given ─→ tables ─ look ─→ beliefs ─ tasks_file ─→ tasks.toml   (the user corrects it)
    tasks.toml ─ data_parts ─→ train, choosing and reporting parts of each task, by text
               ─ health ─→ notes on duplicates, leakage, labels
               ─ kinship ─→ words and representations → groups
               ─ costs ─→ what fits the budget
               ─ arrangements, trying ─→ finished cells of the grid (Optuna asks and prunes)
               ─ choosing ─→ an arrangement, from the choosing part
               ─ verdicts ─→ its gains, from the reporting part
               ─ label_curves, delivery ─→ advice.json, report.html, models

Each step reads what the one before it wrote; decisions depend on finished cells in a fixed order,
never on the clock, so that an interrupted session resumes to the same answer.
"""
