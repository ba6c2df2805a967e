"""From texts to answers that people can rely on.

| file | |
|---|---|
| `inputs.py` | what users give: texts, pairs, rows, tables → examples |
| `answer_texts.py` | examples → one reading by the model → answers |
| `reader.py` | what a model in any form has to do for that |
| `predicts.py` | `predict` and `predict_all` of whatever has a reader |
| `answer_columns.py` | answers as columns of the table they belong to |
| `decisions.py` | what answers consist of: choices among several possibilities |
| `temperature.py` | probabilities that are as often right as they say |
| `thresholds.py` | when a label, an entity or "no answer" is given |
| `conformal.py` | sets of labels and intervals with a chosen coverage |
| `domain.py` | how usual the text is among those of the task |
| `rules.py` | all of this for one task, and the answers it gives |

Nothing here needs more than numpy: a model, an export without torch and a server answer by the same
code. What is fitted on a model is in `measuring/fitting_rules.py`.
"""
